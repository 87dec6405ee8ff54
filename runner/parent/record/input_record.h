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

/// A file or folder named by an option of a stage.
struct InputPath {
  std::string pointer;  ///< location of the option in the recipe: "/data/root"
  /// The absolute path; for weights from the Hugging Face Hub, their path in the local cache.
  std::filesystem::path path;
};

/// Returns the options of a resolved recipe that are declared as paths in its schema, in the
/// recipe's order. Relative paths are resolved against `folder`; empty: the current folder.
std::vector<InputPath> input_paths(const Value& recipe, const SchemaSet& schemas,
                                   const std::filesystem::path& folder = {});

/// The state of an input at a given moment.
struct InputLook {
  /// {"files", "bytes", "names", "contents", "modified"}; null if the input does not exist. `names`
  /// is a SHA-256 of the files' names and sizes. `contents` is a SHA-256 of the files' digests, or
  /// null if the input is larger than kLargestContents or cannot be read. `modified` is a SHA-256
  /// of names and modification times. The record contains no path.
  nlohmann::ordered_json record;
  std::vector<std::uint64_t> files;  ///< hashes of each file's name, size and time; sorted
};

/// Inspects an input. Skips hidden files and folders, and the folders of runs and sweeps; does not
/// follow links to folders. Does not read the contents if they exceed `largest` bytes.
InputLook look_at_input(const std::filesystem::path& input,
                        std::uintmax_t largest = kLargestContents);

/// Returns the current state of the inputs: {"/data/root": InputLook::record}.
nlohmann::ordered_json input_record(const std::vector<InputPath>& inputs,
                                    std::uintmax_t largest = kLargestContents);

/// How an input has changed.
struct InputChange {
  std::string pointer;
  std::string text;  ///< "was 24 files with 1.20 MiB and is now 25 files with 1.21 MiB"
};

/// Returns how an input changed between its records `before` and `now`; empty if it did not.
std::string change_of_input(const nlohmann::ordered_json& before,
                            const nlohmann::ordered_json& now);

/// Returns the changes to inputs that are in both records and existed in `before`. If either record
/// lacks an input's contents, it counts as changed if the modification times of its files differ.
/// An input that the run created ("made": true) may be missing. An input that changed during the
/// run ("changed": true) always counts as changed. Records may come from a file with arbitrary
/// contents.
std::vector<InputChange> input_changes(const nlohmann::ordered_json& before,
                                       const nlohmann::ordered_json& now);

/// A difference between the record of a run and the environment in which the run is to be repeated.
struct RecordChange {
  /// Inputs and code determine what is computed; most of the rest only affects how it is rounded.
  /// For a Python package, it is unknown which of these applies.
  enum class Weight {
    kBits,     ///< the bits of the result may differ
    kUnknown,  ///< the result may differ, or may not be affected by the package at all
    kWhole,    ///< the result may be entirely different
  };
  Weight weight = Weight::kBits;
  std::string what;     ///< "build", "threads", "input /data/root"
  std::string text;     ///< "the build was 0.1.0-ab and is now 0.1.0-cd"
  std::string pointer;  ///< JSON pointer into the recipe; empty if the change does not concern an
                        ///< option
};

/// Returns the differences between `before` and the environment.json `now` that affect a result:
/// the build, the worker's versions, Python and its packages, the processor's model and instruction
/// sets, device and threads, determinism, the recorded variables except a Slurm job's, and
/// the inputs. Except for variables, ignores anything that is in only one of the two. Records may
/// come from a file with arbitrary contents.
std::vector<RecordChange> environment_changes(const nlohmann::ordered_json& before,
                                              const nlohmann::ordered_json& now);

/// Returns the nodes of `graph` with kinds that had a different version when the graph.json
/// `before` was written; the same options now mean something else.
std::vector<RecordChange> kind_changes(const nlohmann::ordered_json& before, const Graph& graph);

/// Returns [{"what", "text", "weight": "bits" | "unknown" | "whole"}].
nlohmann::ordered_json to_json(const std::vector<RecordChange>& changes);

}  // namespace runner
