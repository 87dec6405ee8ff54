#include "runner/parent/cli/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "runner/shared/disk/write_error.h"

namespace runner {

ScratchFolder::ScratchFolder() {
  std::string name = std::filesystem::temp_directory_path() / "retort-XXXXXX";
  if (!mkdtemp(name.data()))
    throw WriteError(write_diagnostic(name, errno, ErrorCode::kCannotCreate));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace runner
