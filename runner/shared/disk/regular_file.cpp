#include "runner/shared/disk/regular_file.h"

namespace runner {

std::ifstream open_regular(const std::filesystem::path& path, std::ios::openmode mode) {
  std::error_code ignored;
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, ignored)) file.open(path, mode);
  else file.setstate(std::ios::failbit);
  return file;
}

}  // namespace runner
