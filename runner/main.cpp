#include <csignal>

#include "runner/parent/cli/console.h"
#include "runner/parent/cli/program.h"

int main(int argc, char** argv) {
  runner::fill_missing_descriptors();
  // Makes writes beyond the file size limit fail with an error instead of killing the process.
  // Workers inherit this.
  std::signal(SIGXFSZ, SIG_IGN);
  return runner::run_program({argv + 1, argv + argc});
}
