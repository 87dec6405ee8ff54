#include "runner/shared/disk/make_folders.h"

#include <cerrno>
#include <system_error>

#include "runner/shared/disk/new_file.h"

namespace runner {

namespace fs = std::filesystem;

void make_folders(const fs::path& folder, Storage& storage) {
  // A path that ends in a slash is its own parent but for that slash.
  if (!folder.has_filename() && folder.has_relative_path()) return make_folders(folder.parent_path(), storage);
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  make_folders(folder.parent_path(), storage);
  if (storage.make_folder(folder) == 0) return sync_folder(folder.parent_path(), storage);
  const int error = errno == EEXIST ? ENOTDIR : errno;
  if (error == ENOTDIR && fs::is_directory(folder, ignored)) return;  // another has just made it
  throw fs::filesystem_error("cannot create folder", folder, std::error_code(error, std::generic_category()));
}

}  // namespace runner
