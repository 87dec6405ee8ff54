#include "runner/record/node_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "runner/disk/descriptor.h"
#include "runner/disk/make_folders.h"
#include "runner/disk/new_file.h"
#include "runner/stage/run_layout.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

/// How the file `name` is now; nullopt where there is no regular file of that name.
std::optional<NodeFile> look_at(const fs::path& folder, const std::string& name) {
  std::error_code error;
  const fs::path path = folder / name;
  if (!fs::is_regular_file(fs::symlink_status(path, error)) || error) return std::nullopt;
  NodeFile file{.name = name, .size = fs::file_size(path, error), .modified = 0};
  if (error) return std::nullopt;
  file.modified = fs::last_write_time(path, error).time_since_epoch().count();
  if (error) return std::nullopt;
  return file;
}

/// What is in the file survives a power cut from here on.
void flush(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.is_open() || disk().sync(*file) != 0)
    throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
}

}  // namespace

std::vector<NodeFile> node_files(const fs::path& folder) {
  std::vector<NodeFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string name = entry.path().lexically_relative(folder).generic_string();
    if (NodeLayout::is_account(name)) continue;
    if (auto file = look_at(folder, name)) files.push_back(*std::move(file));
  }
  std::ranges::sort(files, {}, &NodeFile::name);
  return files;
}

bool are_unchanged(const fs::path& folder, const std::vector<NodeFile>& files) {
  return std::ranges::all_of(files, [&](const NodeFile& file) { return look_at(folder, file.name) == file; });
}

void give_files(const fs::path& from, const std::vector<NodeFile>& files, const fs::path& to) {
  make_folders(to);
  for (const NodeFile& file : files) {
    const fs::path source = from / file.name, target = to / file.name;
    make_folders(target.parent_path());
    std::error_code error;
    if (fs::equivalent(source, target, error)) continue;
    fs::remove(target);
    bool is_linked = false;
    if (target.extension() == ".safetensors") {
      fs::create_hard_link(source, target, error);
      is_linked = !error;
    }
    if (!is_linked) fs::copy_file(source, target);
    flush(target);
    sync_folder(target.parent_path());
  }
}

}  // namespace runner
