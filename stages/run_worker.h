#pragma once

namespace stages {

/// Runs the worker, whether as a program or as a library: serves the requests on standard input,
/// writes events to the descriptor `events`, and returns the exit code. Call it once per process.
int run_worker(int events);

}  // namespace stages
