#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/storage.h"

namespace runner {

/// A file that a node has left in its folder.
struct NodeFile {
  std::string name;           ///< below the folder: "checkpoints/step-00000004/model.safetensors"
  std::uintmax_t size = 0;    ///< bytes
  std::int64_t modified = 0;  ///< of the file system's clock, in its own units
  bool operator==(const NodeFile&) const = default;
};

/// The regular files in a node's folder and below, sorted by name; without what the runner itself
/// writes there (finished.json, reused.json). Links are neither listed nor followed. Throws
/// std::filesystem::filesystem_error.
std::vector<NodeFile> node_files(const std::filesystem::path& folder);

/// True if all `files` are in `folder` and are what they were; there may be others.
bool are_unchanged(const std::filesystem::path& folder, const std::vector<NodeFile>& files);

/// Gives `to` the files of `from`, in place of what it has by these names: weights and features,
/// which nobody writes into, by a further name for the same bytes where the file system can do
/// that; others as copies. Throws std::filesystem::filesystem_error.
void give_files(const std::filesystem::path& from, const std::vector<NodeFile>& files,
                const std::filesystem::path& to);

/// A node that has finished in some run, and where its results are.
struct IndexedNode {
  nlohmann::json document;      ///< all that they follow from (node_document.h)
  std::filesystem::path run;    ///< the run's folder
  std::vector<NodeFile> files;  ///< below run/nodes/<id>
  std::int64_t metrics = 0;     ///< that it measured, in run/metrics.jsonl
  std::string date;             ///< when it finished, for whoever reads the index
};

/// The nodes that runs of this user have finished: below one folder, <kind>/<id>/<key>.json each,
/// written whole or not at all, so that any number of runs may use it at once. It only points to
/// runs: where it says something else than what is there, an entry is worth nothing and is removed.
class NodeIndex {
 public:
  /// `folder` need not exist.
  explicit NodeIndex(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Is there an entry, whatever it is worth?
  bool has(const std::string& kind, const std::string& id, const std::string& key) const;
  /// The node of that kind, id and key, whose files are what they were; nullopt where there is
  /// none.
  std::optional<IndexedNode> find(const std::string& kind, const std::string& id,
                                  const std::string& key) const;
  /// The document nearest to `document` among the newest nodes of that kind and id; nullopt where
  /// there are none.
  std::optional<nlohmann::json> nearest(const std::string& kind, const std::string& id,
                                        const nlohmann::json& document) const;
  /// Enters a node, in place of one of the same key; of one kind and id the oldest beyond a few
  /// hundred are forgotten. Throws WriteError or std::filesystem::filesystem_error.
  void put(const std::string& kind, const std::string& id, const std::string& key,
           const IndexedNode& node) const;
  void remove(const std::string& kind, const std::string& id, const std::string& key) const;
  /// The file by which those that compute such a node take turns (turn.h).
  std::filesystem::path turn(const std::string& kind, const std::string& id,
                             const std::string& key) const;

 private:
  std::filesystem::path file(const std::string& kind, const std::string& id,
                             const std::string& key) const;
  std::vector<std::filesystem::path> newest(const std::filesystem::path& below) const;

  std::filesystem::path folder_;
};

/// Where the index of this user is: nodes/ in the cache folder (cache_folder.h); empty where there
/// is none.
std::filesystem::path node_index_folder();

/// What a node leaves in its folder, as finished.json, once all that it measured is on the disk: a
/// resumed run need not run it again.
struct FinishedNode {
  std::string key;  ///< node_keys() of the graph that it was part of
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;  ///< 0: unknown
  std::string reused_from = {};  ///< the folder of the run whose results these are; empty: its own
  std::string reuse_key = {};    ///< by which other runs find it (reuse.h); empty: they do not
  struct File {
    std::uintmax_t size = 0;
    std::string sha256 =
        {};  ///< empty: it is larger than kLargestDigested, or the record is older than digests
  };
  std::map<std::string, File> files =
      {};  ///< that it left in its folder; written by write_finished()
};

/// A larger file of a finished node is known again by its size alone. Checkpoints, which have
/// digests of their own, are not meant.
inline constexpr std::uintmax_t kLargestDigested = 16 << 20;  // a hundredth of a second

/// Throws WriteError. `folder` is the node's; its files are listed, without the checkpoints
/// themselves: which of those are kept is the training's affair.
void write_finished(const std::filesystem::path& folder, const FinishedNode& node,
                    Storage& storage = disk());

/// nullopt where there is none that can be read.
std::optional<FinishedNode> read_finished(const std::filesystem::path& folder);

/// What keeps a node that has finished from being done, in a sentence: a file that is missing or is
/// not what was written, a checkpoint that is damaged. nullopt: nothing.
std::optional<std::string> what_is_missing(const std::filesystem::path& folder,
                                           const FinishedNode& node);

}  // namespace runner
