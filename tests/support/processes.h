#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ferry {

// What /proc tells of other processes. A process that is gone gives empty
// answers.

// Makes this process the one that orphans of its children fall to, so that
// find_children(getpid()) shows what a child left behind.
void adopt_orphans();

// Processes whose parent is `parent`, dead ones that wait to be reaped too.
std::vector<pid_t> find_children(pid_t parent);

// Name of the program, cut to 15 characters; also of a dead process.
std::string program_name(pid_t pid);

// Its arguments, the program first; empty for a dead process.
std::vector<std::string> command_line(pid_t pid);

// Whether it is a worker, by its program's name.
bool is_worker(pid_t pid);

// State letter of /proc/PID/stat: R, S, D, T, Z …; 0 when it is gone.
char process_state(pid_t pid);

// Whether this process has no thread but the one that asks, and a sanitizer's.
bool has_one_thread();

// What its descriptors point to, such as "socket:[17]" or "/dev/shm/x".
std::vector<std::string> open_descriptors(pid_t pid);

// How many of them are sockets.
int count_sockets(pid_t pid);

// Files below /dev/shm that it has mapped or open.
std::vector<std::string> shared_memory_files(pid_t pid);

}  // namespace ferry
