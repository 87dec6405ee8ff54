#include "runner/shared/disk/installation.h"

#include <sys/auxv.h>

#include <system_error>

namespace runner {

std::filesystem::path own_executable() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return path;
  // Without /proc, use the path by which the program was called.
  const auto* const called = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return std::filesystem::absolute(called ? called : "retort", error).lexically_normal();
}

std::filesystem::path share_folder() {
  return own_executable().parent_path().parent_path() / "share" / "retort";
}

}  // namespace runner
