#pragma once

namespace stages {

/// Serves the requests on standard input, writes events to the descriptor `events`, and returns the
/// exit code: what both the program and the library of the worker do. Once in a process.
int run_worker(int events);

}  // namespace stages
