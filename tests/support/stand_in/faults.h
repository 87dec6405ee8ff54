#pragma once

#include <string>
#include <vector>

namespace stand_in {

/// Writes a line to the standard error stream, and to the file that the variable
/// RETORT_STAND_IN_FAULTS names, for programs whose faults no test takes. A signal handler may call
/// it.
void write_line(const char* text);

/// Notes a mistake of the code under test, which a GPU would not tell: it would compute with wrong
/// numbers. Safe on any thread.
void report(std::string fault);

/// Returns the faults since the last call, among them what host code read or wrote in GPU memory
/// since then, and forgets them.
std::vector<std::string> take_faults();

}  // namespace stand_in
