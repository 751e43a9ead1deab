//! The small store that every rule holds in.

/// A store in which every rule holds. Keys are given without the partition's key `ff:{fp:1}:`
/// unless they begin with `ff:`; `$a` to `$f` are ids.
pub(super) const CLEAN: &str = "
ff:{fp:0}:deployment hash flow=4 budget=1 quota=1 format=2
ff:{fp:3}:marks hash $a=17:8000
ff:{fp:0}:lanes set main side
ff:{fp:0}:workers hash w-1=$a:w:1000:8000:cpu~main~side
ff:{fp:0}:due zset w:w-1=8000
all zset $a=1000 $b=1001 $c=1002 $d=1003 $e=1004 $f=1005
needs:main set n:k:cpu,gpu
queued zset main=0
q:main:n:k:cpu,gpu zset $a=-1999999999000
leases zset $b=2400
due zset $d=3000 $e=9000 s:$c:0=2500
ended:success zset $c=2010
ended:cancelled zset $f=86401700
idem hash n:key=7000:$a:digest
log stream e=created:$a:::: e=claimed:$b:1:1:w-1:initial
x:$a hash st=waiting la=main ki=k ns=n xm=1 ct=1000 pr=2 iu=7000 id=key in=payload po={} ca=cpu,gpu
x:$b hash st=running la=main ki=k ns=n xm=1 ct=1001 ac=2 li=$b ep=3 le=5000 wo=w wi=i as=1500 \
    sa=1100 ty=retry rr=1:fixed:100:0:1000:0: rc=1 at=900 ta=2400 fm=2:3:5:9 kf=0
x:$b:s:0 stream h=1150:0:token:,p=ab
x:$b:s:1 stream 2@h=1600:5:token:,p=ab 3@h=1601:7:line:c:1,p=cd
x:$b:attempts list 0:$a:initial:ended_failure:1100:1200:1:w:i:transient:0:boom
x:$c hash st=success la=side ki=k ns=n xm=1 ct=1002 ac=1 li=$c ep=1 le=5000 wo=w wi=i as=1500 \
    et=2000 re=10 in2=@ out=done sr=summary:2:1000:500 fm=1:1:0:2
x:$c:s:0 stream h=1700:0:patch:,p={}
x:$c:s:0:d string {}
x:$c:payload string *300
x:$d hash st=lapsed la=main ki=k ns=n ct=1003 ac=1 li=$d ep=1 wo=w wi=i as=1500 mt=1600 \
    ax=lapse ae=1600 gi=$d gk=reclaim gw=w gn=i gx=3000
x:$e hash st=delayed la=main ki=k ns=n ct=1004 du=9000 dr=delay tg=1 dl=9500
x:$e:tags hash team.name=blue
x:$f hash st=cancelled la=main ki=k ns=n ct=1005 et=1700 cb=operator_override rp=1 ac=1 li=$f \
    ep=1 wo=w wi=i as=1600 ax=done ae=1650
ff:{fp:2}:all zset $b=1000 $c=1000
ff:{fp:2}:suspended zset $b=1500
ff:{fp:2}:leases zset $c=5000
ff:{fp:2}:due zset $b=9000 p:$e=7000
ff:{fp:2}:secrets hash current=k1 revision=1 kid:k1=sha1::00112233445566778899aabbccddeeff
ff:{fp:2}:x:$b hash st=suspended la=main ki=k ns=n xm=1 ct=1000 ac=1 li=$b ep=1 wo=w wi=i as=1200 \
    mt=1500 nx=resume pk=suspend wp=$d sw=waiting_for_signal su=9000 wn=1 sc=2
ff:{fp:2}:x:$b:waitpoints hash $d=1:$a:order
ff:{fp:2}:wp:$d hash execution=$b attempt=0 key=order created_at=1500 state=active count=2 \
    matched=1
ff:{fp:2}:wp:$d:signals hash 1=x 2=x s:$a=1 s:$b=2 i:once=1
ff:{fp:2}:x:$c hash st=running la=main ki=k ns=n xm=1 ct=1000 ac=1 li=$c ep=1 wo=w wi=i as=1200 \
    le=5000 wn=1 pw=1
ff:{fp:2}:x:$c:waitpoints hash $e=1::early
ff:{fp:2}:wp:$e hash execution=$c attempt=0 key=early created_at=1500 state=pending \
    expires_at=7000
ff:{fp:3}:all zset $a=1000 $b=1000 $c=1000 $d=1000 $e=1000
ff:{fp:3}:needs:main set n:k
ff:{fp:3}:queued zset main=0
ff:{fp:3}:q:main:n:k zset $b=1000
ff:{fp:3}:due zset f:$f=9000
ff:{fp:3}:ended:success zset $a=253402300799999
ff:{fp:3}:ended:cancelled zset $d=253402300799999
ff:{fp:3}:ended:skipped zset $e=253402300799999
ff:{fp:3}:flows zset $f=0
ff:{fp:3}:f:$f hash kind=k namespace=n created_at=1000 changed_at=1000 revision=8 nodes=5 edges=3 \
    sealed=1 live=2 bad=0 n:success=1 n:waiting=1 n:blocked=1 n:cancelled=1 n:skipped=1 \
    deadline_at=9000 started_at=1200
ff:{fp:3}:f:$f:m zset $a=1 $b=2 $c=3 $d=4 $e=5
ff:{fp:3}:f:$f:e hash $a=$b:0 $b:$c=$b:0
ff:{fp:3}:f:$f:tags hash team.name=blue
ff:{fp:3}:x:$a hash st=success la=main ki=k ns=n xm=1 ct=1000 ac=1 li=$a ep=1 le=5000 wo=w wi=i \
    as=1200 et=2000 out=done fl=$f on=1 nm=first rk=1 eo=2 er=2
ff:{fp:3}:x:$a:out list $b:s:1:1::left $e:f:0:1::
ff:{fp:3}:x:$b hash st=waiting la=main ki=k ns=n xm=1 ct=1000 fl=$f on=2 rk=2 dp=:1:1:0 ic=1 eo=1
ff:{fp:3}:x:$b:in list $a:0:s:1:left
ff:{fp:3}:x:$b:inputs list $a:left
ff:{fp:3}:x:$b:out list $c:s:0:1:$a:
ff:{fp:3}:x:$c hash st=blocked la=main ki=k ns=n xm=1 ct=1000 fl=$f on=3 rk=3 dp=:1:0:0
ff:{fp:3}:x:$c:in list $b:0:s:0:
ff:{fp:3}:x:$d hash st=cancelled la=main ki=k ns=n xm=1 ct=1000 et=1700 cb=operator_override \
    fl=$f on=4 op=1
ff:{fp:3}:x:$e hash st=skipped la=main ki=k ns=n xm=1 ct=1000 et=2000 fr=dependency_impossible \
    fl=$f on=5 rk=2 dp=:1:0:1
ff:{fp:3}:x:$e:in list $a:1:f:0:
";

/// A flow whose first member waits for its children, of which one is over.
pub(super) const CHILDREN: &str = "
ff:{fp:0}:all zset $a=1000 $b=1000 $c=1000
ff:{fp:0}:needs:main set n:k
ff:{fp:0}:queued zset main=0
ff:{fp:0}:q:main:n:k zset $c=1000
ff:{fp:0}:ended:success zset $b=253402300799999
ff:{fp:0}:flows zset $d=0
ff:{fp:0}:f:$d hash kind=k namespace=n created_at=1000 changed_at=1000 revision=3 nodes=3 edges=0 \
    sealed=1 live=2 bad=0 n:success=1 n:waiting=1 n:blocked=1 started_at=1000
ff:{fp:0}:f:$d:m zset $a=1 $b=2 $c=3
ff:{fp:0}:x:$a hash st=blocked la=main ki=k ns=n xm=1 ct=1000 ac=1 li=$a ep=1 wo=w wi=i as=1000 \
    mt=1500 nx=resume pk=children du=1500 dr=delay fl=$d on=1 ch=2 oc=1
ff:{fp:0}:x:$a:children list $b $c
ff:{fp:0}:x:$b hash st=success la=main ki=k ns=n xm=1 ct=1000 ac=1 li=$b ep=1 le=5000 wo=w wi=i \
    as=1200 et=2000 out=done fl=$d on=2 nm=left pa=$a cd=digest rk=-2
ff:{fp:0}:x:$c hash st=waiting la=main ki=k ns=n xm=1 ct=1000 fl=$d on=3 nm=right pa=$a rk=-1
";
