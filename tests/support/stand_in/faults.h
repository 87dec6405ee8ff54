#pragma once

#include <string>
#include <vector>

namespace stand_in {

/// Writes a line to the standard error stream, and to the file that the variable
/// RETORT_STAND_IN_FAULTS names, for programs that run without a test that takes their faults. A
/// signal handler may call it.
void write_line(const char* text);

/// Records a mistake in the code under test that a GPU would not report, but that would make its
/// results wrong. Safe on any thread.
void report(std::string fault);

/// Returns the faults since the last call, including accesses of host code to GPU memory since
/// then, and clears them.
std::vector<std::string> take_faults();

}  // namespace stand_in
