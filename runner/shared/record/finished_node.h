#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runner/shared/disk/storage.h"

namespace runner {

/// What a node leaves in its folder, as finished.json, once all that it measured is on the disk: a resumed run need not
/// run it again.
struct FinishedNode {
  std::string key;  ///< node_keys() of the graph that it was part of
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;  ///< 0: unknown
  std::string reused_from = {};        ///< the folder of the run whose results these are; empty: its own
  std::string reuse_key = {};          ///< by which other runs find it (reuse.h); empty: they do not
  struct File {
    std::uintmax_t size = 0;
    std::string sha256 = {};  ///< empty: it is larger than kLargestDigested, or the record is older than digests
  };
  std::map<std::string, File> files = {};  ///< that it left in its folder; written by write_finished()
};

/// A larger file of a finished node is known again by its size alone. Checkpoints, which have digests of their own, are
/// not meant.
inline constexpr std::uintmax_t kLargestDigested = 16 << 20;  // a hundredth of a second

/// Throws WriteError. `folder` is the node's; its files are listed, without the checkpoints themselves: which of those
/// are kept is the training's affair.
void write_finished(const std::filesystem::path& folder, const FinishedNode& node, Storage& storage = disk());

/// nullopt where there is none that can be read.
std::optional<FinishedNode> read_finished(const std::filesystem::path& folder);

/// What keeps a node that has finished from being done, in a sentence: a file that is missing or is not what was
/// written, a checkpoint that is damaged. nullopt: nothing.
std::optional<std::string> what_is_missing(const std::filesystem::path& folder, const FinishedNode& node);

}  // namespace runner
