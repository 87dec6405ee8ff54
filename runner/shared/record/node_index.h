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

/// A file in a node's folder.
struct NodeFile {
  std::string name;           ///< relative to the folder:
                              ///< "checkpoints/step-00000004/model.safetensors"
  std::uintmax_t size = 0;    ///< bytes
  std::int64_t modified = 0;  ///< time of modification, by the file system's clock and in its units
  bool operator==(const NodeFile&) const = default;
};

/// The regular files in a node's folder and below, sorted by name, except those that the runner
/// itself writes there (finished.json, reused.json). Links are neither listed nor followed. Throws
/// std::filesystem::filesystem_error.
std::vector<NodeFile> node_files(const std::filesystem::path& folder);

/// True if all `files` are in `folder` and unchanged; there may be others.
bool are_unchanged(const std::filesystem::path& folder, const std::vector<NodeFile>& files);

/// Gives `to` the files of `from`, replacing files of the same names. Weights and features, which
/// are never modified, are hard-linked if the file system supports it; other files are copied.
/// Throws std::filesystem::filesystem_error.
void give_files(const std::filesystem::path& from, const std::vector<NodeFile>& files,
                const std::filesystem::path& to);

/// A node that some run has finished, and where its results are.
struct IndexedNode {
  nlohmann::json document;      ///< everything the results depend on (node_document.h)
  std::filesystem::path run;    ///< the run's folder
  std::vector<NodeFile> files;  ///< below run/nodes/<id>
  std::int64_t metrics = 0;     ///< the number that it logged to run/metrics.jsonl
  std::string date;             ///< when it finished, for human readers of the index
};

/// The nodes that this user's runs have finished: files <kind>/<id>/<key>.json below one folder.
/// Each is written atomically, so any number of runs may use the index at once. It only points to
/// runs: an entry that disagrees with the run it points to is worthless and is removed.
class NodeIndex {
 public:
  /// `folder` need not exist.
  explicit NodeIndex(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// True if there is an entry, even a stale one.
  bool has(const std::string& kind, const std::string& id, const std::string& key) const;
  /// The node of that kind, id and key whose files are unchanged; nullopt if there is none.
  std::optional<IndexedNode> find(const std::string& kind, const std::string& id,
                                  const std::string& key) const;
  /// The document closest to `document` among the newest nodes of that kind and id; nullopt if
  /// there are none.
  std::optional<nlohmann::json> nearest(const std::string& kind, const std::string& id,
                                        const nlohmann::json& document) const;
  /// Adds a node, replacing one with the same key. For each kind and id, the oldest entries beyond
  /// a few hundred are removed. Throws WriteError or std::filesystem::filesystem_error.
  void put(const std::string& kind, const std::string& id, const std::string& key,
           const IndexedNode& node) const;
  void remove(const std::string& kind, const std::string& id, const std::string& key) const;
  /// The lock file by which runs that compute such a node take turns (Turn in descriptor.h).
  std::filesystem::path turn(const std::string& kind, const std::string& id,
                             const std::string& key) const;

 private:
  std::filesystem::path file(const std::string& kind, const std::string& id,
                             const std::string& key) const;
  std::vector<std::filesystem::path> newest(const std::filesystem::path& below) const;

  std::filesystem::path folder_;
};

/// The index folder of this user: nodes/ in cache_folder(); empty if there is none.
std::filesystem::path node_index_folder();

/// The contents of finished.json, which a node writes to its folder once all its metrics are on the
/// disk: a resumed run need not run the node again.
struct FinishedNode {
  std::string key;  ///< from node_keys() of the node's graph
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;  ///< 0: unknown
  std::string reused_from = {};  ///< the folder of the run that these results come from; empty:
                                 ///< this one
  std::string reuse_key = {};    ///< the key by which other runs find it (reuse.h); empty: they
                                 ///< cannot
  struct File {
    std::uintmax_t size = 0;
    std::string sha256 =
        {};  ///< empty: the file is larger than kLargestDigested, or the record predates digests
  };
  std::map<std::string, File> files = {};  ///< in its folder; set by write_finished()
};

/// Larger files of a finished node are only compared by size. Does not apply to checkpoints, which
/// have their own digests.
inline constexpr std::uintmax_t kLargestDigested = 16 << 20;  // a hundredth of a second

/// `folder` is the node's. Lists its files except the checkpoints themselves: the training decides
/// which of those to keep. Throws WriteError.
void write_finished(const std::filesystem::path& folder, const FinishedNode& node,
                    Storage& storage = disk());

/// nullopt if there is none or it cannot be read.
std::optional<FinishedNode> read_finished(const std::filesystem::path& folder);

/// Why a finished node does not count as done, in a sentence: a file is missing or has changed, or
/// a checkpoint is damaged. nullopt if it does.
std::optional<std::string> what_is_missing(const std::filesystem::path& folder,
                                           const FinishedNode& node);

}  // namespace runner
