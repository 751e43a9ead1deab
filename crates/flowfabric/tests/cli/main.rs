//! The command line as its users meet it: the real binary against a real server process, every
//! command, what it prints and how it ends.

mod site;

mod approve;
mod budgets;
mod cancel_replay;
mod flow;
mod hold;
mod ids;
mod lanes;
mod look;
mod submit;
mod trouble;

mod secrets;
mod serve;
mod tail;
mod terminal;
mod tls;
mod waiting;
mod why;
mod work;
mod workers;

mod chaos;
mod demo;
mod docs;
mod examples;
mod full;
mod several_servers;
mod stopped;
mod store;
