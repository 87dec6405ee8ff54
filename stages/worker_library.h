#pragma once

// What libretort_worker.so offers to the program retort-worker and to Python
// (stages/python/retort_host), which loads it where a recipe names Python code.

extern "C" {

/// The version of LibTorch that this library was built with, and needs: "2.11.0".
const char* retort_worker_torch();

/// Serves the requests on standard input with events on the descriptor `events`, until standard
/// input ends. `call`, if not null, does the worker's requests to Python: 0 if it did one, after
/// it has called retort_worker_reply(). Returns the exit code, with which the process must end at
/// once.
int retort_worker_serve(int events, int (*call)(const char* request));

/// The reply to a call, before it returns; copied.
void retort_worker_reply(const char* reply);

}  // extern "C"
