#include "runner/installation.h"

namespace runner {

std::filesystem::path program_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path(".") : program.parent_path();
}

std::filesystem::path share_folder() { return program_folder().parent_path() / "share" / "retort"; }

}  // namespace runner
