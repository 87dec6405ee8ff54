#include "runner/disk/installation.h"

namespace runner {

std::filesystem::path own_executable() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::filesystem::path share_folder() { return own_executable().parent_path().parent_path() / "share" / "retort"; }

}  // namespace runner
