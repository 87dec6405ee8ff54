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
  std::int64_t modified = 0;  ///< modification time, in the units of the file system's clock
  bool operator==(const NodeFile&) const = default;
};

/// Returns the regular files in a node's folder and below, sorted by name, except those that the
/// runner itself writes there (finished.json, reused.json). Links are neither listed nor followed.
/// Throws std::filesystem::filesystem_error.
std::vector<NodeFile> node_files(const std::filesystem::path& folder);

/// True if all `files` exist in `folder` and are unchanged. The folder may contain other files.
bool are_unchanged(const std::filesystem::path& folder, const std::vector<NodeFile>& files);

/// Copies `files` from folder `from` to folder `to`, replacing files with the same names. Weights
/// and features, which are never modified, are hard-linked if the file system supports it. Throws
/// std::filesystem::filesystem_error.
void give_files(const std::filesystem::path& from, const std::vector<NodeFile>& files,
                const std::filesystem::path& to);

/// A node that some run has finished, and the location of its results.
struct IndexedNode {
  nlohmann::json document;      ///< everything the results depend on (node_document.h)
  std::filesystem::path run;    ///< the folder of the run that finished it
  std::vector<NodeFile> files;  ///< paths below run/nodes/<id>
  std::int64_t metrics = 0;     ///< number of metrics that the node logged to run/metrics.jsonl
  std::string date;             ///< when the node finished, for human readers of the index
};

/// An index of the nodes that this user's runs have finished: files <kind>/<id>/<key>.json below
/// one folder. Each file is written atomically, so any number of runs may use the index at once.
/// Entries only point to runs. An entry that no longer matches its run is removed.
class NodeIndex {
 public:
  /// `folder` need not exist.
  explicit NodeIndex(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// True if there is an entry, even an outdated one.
  bool has(const std::string& kind, const std::string& id, const std::string& key) const;
  /// Returns the node with this kind, id and key if its files are unchanged; otherwise nullopt.
  std::optional<IndexedNode> find(const std::string& kind, const std::string& id,
                                  const std::string& key) const;
  /// Returns the document most similar to `document` among the newest nodes with this kind and id;
  /// nullopt if there are none.
  std::optional<nlohmann::json> nearest(const std::string& kind, const std::string& id,
                                        const nlohmann::json& document) const;
  /// Adds a node, replacing an entry with the same key. For each kind and id, only the newest few
  /// hundred entries are kept. Throws WriteError or std::filesystem::filesystem_error.
  void put(const std::string& kind, const std::string& id, const std::string& key,
           const IndexedNode& node) const;
  void remove(const std::string& kind, const std::string& id, const std::string& key) const;
  /// Returns the lock file with which runs take turns computing this node (Turn in descriptor.h).
  std::filesystem::path turn(const std::string& kind, const std::string& id,
                             const std::string& key) const;

 private:
  std::filesystem::path file(const std::string& kind, const std::string& id,
                             const std::string& key) const;
  std::vector<std::filesystem::path> newest(const std::filesystem::path& below) const;

  std::filesystem::path folder_;
};

/// Returns this user's index folder: nodes/ in cache_folder(); empty if there is none.
std::filesystem::path node_index_folder();

/// The contents of finished.json, which a node writes to its folder once all its metrics are on
/// disk. A resumed run need not run such a node again.
struct FinishedNode {
  std::string key;  ///< computed by node_keys() from the node's graph
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;  ///< 0: unknown
  std::string reused_from = {};  ///< the run folder that these results come from; empty: this run
                                 ///< itself
  std::string reuse_key = {};    ///< the key by which other runs find the node (reuse.h); empty if
                                 ///< they cannot
  struct File {
    std::uintmax_t size = 0;
    std::string sha256 =
        {};  ///< empty if the file is larger than kLargestDigested or the record predates digests
  };
  std::map<std::string, File> files = {};  ///< the node's files; set by write_finished()
};

/// A finished node's files larger than this are compared only by size. Does not apply to
/// checkpoints, which have their own digests.
inline constexpr std::uintmax_t kLargestDigested = 16 << 20;  // takes about 10 ms to read

/// Writes finished.json to the node's `folder`. Lists the node's files except those of checkpoints,
/// since the training stage decides which checkpoints to keep. Throws WriteError.
void write_finished(const std::filesystem::path& folder, const FinishedNode& node,
                    Storage& storage = disk());

/// Reads finished.json; nullopt if there is none or it cannot be read.
std::optional<FinishedNode> read_finished(const std::filesystem::path& folder);

/// Explains, in one sentence, why a finished node does not count as done: a file is missing or has
/// changed, or a checkpoint is damaged. Returns nullopt if the node counts as done.
std::optional<std::string> what_is_missing(const std::filesystem::path& folder,
                                           const FinishedNode& node);

}  // namespace runner
