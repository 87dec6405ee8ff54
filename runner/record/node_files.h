#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace runner {

/// A file that a node has left in its folder.
struct NodeFile {
  std::string name;           ///< below the folder: "checkpoints/step-00000004/model.safetensors"
  std::uintmax_t size = 0;    ///< bytes
  std::int64_t modified = 0;  ///< of the file system's clock, in its own units
  bool operator==(const NodeFile&) const = default;
};

/// The regular files in a node's folder and below, sorted by name; without what the runner itself writes there
/// (finished.json, reused.json). Links are neither listed nor followed. Throws std::filesystem::filesystem_error.
std::vector<NodeFile> node_files(const std::filesystem::path& folder);

/// True if all `files` are in `folder` and are what they were; there may be others.
bool are_unchanged(const std::filesystem::path& folder, const std::vector<NodeFile>& files);

/// Gives `to` the files of `from`, in place of what it has by these names: weights and features, which nobody writes
/// into, by a further name for the same bytes where the file system can do that; others as copies. Throws
/// std::filesystem::filesystem_error.
void give_files(const std::filesystem::path& from, const std::vector<NodeFile>& files, const std::filesystem::path& to);

}  // namespace runner
