#include <csignal>

#include "runner/parent/cli/console.h"
#include "runner/parent/cli/program.h"

int main(int argc, char** argv) {
  runner::fill_missing_descriptors();
  std::signal(SIGXFSZ,
              SIG_IGN);  // a write over the file size limit then fails with an error; workers
                         // inherit this
  return runner::run_program({argv + 1, argv + argc});
}
