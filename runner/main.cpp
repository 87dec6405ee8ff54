#include <csignal>

#include "runner/parent/cli/console.h"
#include "runner/parent/cli/program.h"

int main(int argc, char** argv) {
  runner::fill_missing_descriptors();
  std::signal(SIGXFSZ,
              SIG_IGN);  // a write beyond a limit fails, and is reported; the worker inherits this
  return runner::run_program({argv + 1, argv + argc});
}
