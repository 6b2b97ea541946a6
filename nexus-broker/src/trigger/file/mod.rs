//! Triggers of type `file`: what was written, once it has been quiet.
//!
//! The unit is the state of the file, or of all files of the folder that fit: path, time of change, size and number of each, and the SHA-256 of a
//! single file of up to 64 MiB. A change of the state fires when nothing has changed for the quiet time, however often it changed before; what
//! changes for ever never fires. The state is also the name of the occurrence, so two brokers that watch the same files fire once.
//!
//! | what happens | what follows |
//! | --- | --- |
//! | a file is written, appended to or touched, once or 1,000 times | fires once it is quiet |
//! | another file takes its name, as editors save | one change, as the name has another file |
//! | a file comes and goes within the quiet time | nothing |
//! | a file is deleted | nothing, or with `deleted` a firing; one of its name that comes later is a change |
//! | the mode or a name that is not looked at changes | nothing |
//! | the folder is missing, or goes | it is looked for every two seconds; what is in it when it is there is a change |
//! | a change while no broker ran | fires once when one runs again, for a folder without a list of files; not if files were only deleted and none is left |
//! | a network file system | the system does not tell of the changes of other machines: set `poll_milliseconds` |
//! | a link | a single file is followed; links in a folder are passed over |
//! | more than 10,000 files that fit, or folders 32 deep | nothing fires, and the log says so |

mod change;
mod scan;
mod settle;
mod system;
mod watch;

pub(super) use scan::FileScan;
pub(super) use watch::FileWatch;
