-- Due: what is in the index of times beside executions has a prefix, a letter and a colon; here
-- stands what happens when its time has come, by prefix. The model that puts such entries there
-- says so: function(w, p, member, now) gives the name under which the tick counts it.

return { on = {} }
