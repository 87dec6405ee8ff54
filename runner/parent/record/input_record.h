#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/value/value.h"

namespace runner {

/// A file or a folder that an option of a stage names.
struct InputPath {
  std::string pointer;         ///< of the option in the recipe: "/data/root"
  std::filesystem::path path;  ///< whole; of weights in the cache of Hugging Face's, theirs
};

/// Those of a resolved recipe whose schema says that they are paths, in the recipe's order;
/// relative ones stand in `folder`, empty: the current one.
std::vector<InputPath> input_paths(const Value& recipe, const SchemaSet& schemas,
                                   const std::filesystem::path& folder = {});

/// An input at one moment.
struct InputLook {
  /// {"files", "bytes", "names", "contents", "modified"}, where `names` is a SHA-256 of the names
  /// and sizes, `contents` one of the SHA-256 of the files, or null for an input that is larger
  /// than kLargestContents or cannot be read, `modified` one of names and times; null for what is
  /// not there. No path is in it.
  nlohmann::ordered_json record;
  std::vector<std::uint64_t> files;  ///< a number for each, of its name, size and time; sorted
};

/// Looks at an input. Hidden files and folders, those of runs and of sweeps are left out; no link
/// to a folder is followed. Of more than `largest` bytes the contents are not read.
InputLook look_at_input(const std::filesystem::path& input,
                        std::uintmax_t largest = kLargestContents);

/// How the inputs are now: {"/data/root": InputLook::record}.
nlohmann::ordered_json input_record(const std::vector<InputPath>& inputs,
                                    std::uintmax_t largest = kLargestContents);

/// What has become of an input since.
struct InputChange {
  std::string pointer;
  std::string text;  ///< "was 24 files with 1.20 MiB and is now 25 files with 1.21 MiB"
};

/// Empty: the input of the record `before` is what it was when `now` was written.
std::string change_of_input(const nlohmann::ordered_json& before,
                            const nlohmann::ordered_json& now);

/// The inputs that both records name and that were there then, as far as they have changed. An
/// input whose contents are not in both records and whose files have other times counts as changed;
/// one that its run has made ("made": true) may be gone, and one that was changed while the run was
/// at work ("changed": true) has always changed. Records may come from a file that anything may
/// have happened to.
std::vector<InputChange> input_changes(const nlohmann::ordered_json& before,
                                       const nlohmann::ordered_json& now);

/// Something that differs between the record of a run and the world in which it is to be had again.
struct RecordChange {
  /// The inputs and the code decide what is computed, the rest only how it is rounded.
  enum class Weight {
    kBits,   ///< the result may have other bits
    kWhole,  ///< the result may be another one altogether
  };
  Weight weight = Weight::kBits;
  std::string what;     ///< "build", "threads", "input /data/root"
  std::string text;     ///< "the build was 0.1.0-ab and is now 0.1.0-cd"
  std::string pointer;  ///< into the recipe; empty: not of an option
};

/// Where the environment.json `now` differs from `before`, in what bears on a result: the build,
/// the worker's versions, the processor's model and instruction sets, device and threads,
/// determinism, the recorded variables but that of a Slurm job, and the inputs. What only one of
/// them says is passed over, but for variables. Records may come from a file that anything may have
/// happened to.
std::vector<RecordChange> environment_changes(const nlohmann::ordered_json& before,
                                              const nlohmann::ordered_json& now);

/// The nodes of `graph` whose kinds had another version when the graph.json `before` was written:
/// the same options mean something else since.
std::vector<RecordChange> kind_changes(const nlohmann::ordered_json& before, const Graph& graph);

/// [{"what", "text", "weight": "bits" | "whole"}]
nlohmann::ordered_json to_json(const std::vector<RecordChange>& changes);

}  // namespace runner
