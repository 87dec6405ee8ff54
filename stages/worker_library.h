#pragma once

// The functions that libretort_worker.so provides to the retort-worker program and to Python
// (stages/python/retort_host). Python loads it if a recipe uses Python code.

extern "C" {

/// Returns the version of LibTorch that this library was built with and requires, such as "2.11.0".
const char* retort_worker_torch();

/// Serves the requests on standard input, with events on the descriptor `events`, until standard
/// input ends. `call` handles requests from the worker to Python, and may be null. It returns 0 if
/// it succeeded, after calling retort_worker_reply(). Returns the code with which the process must
/// exit immediately.
int retort_worker_serve(int events, int (*call)(const char* request));

/// Passes the reply to a call, before the call returns. The string is copied.
void retort_worker_reply(const char* reply);

}  // extern "C"
