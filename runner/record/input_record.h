#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/schema/schema.h"
#include "runner/value/value.h"

namespace runner {

/// A file or a folder that an option of a stage names.
struct InputPath {
  std::string pointer;         ///< of the option in the recipe: "/data/root"
  std::filesystem::path path;  ///< whole; of weights in the cache of Hugging Face's, theirs
};

/// Those of a resolved recipe whose schema says that they are paths, in the recipe's order; relative ones stand in
/// `folder`, empty: the current one.
std::vector<InputPath> input_paths(const Value& recipe, const SchemaSet& schemas,
                                   const std::filesystem::path& folder = {});

/// Bytes of an input up to which its contents are read for a digest, a fifth of a second; of a larger one the times of
/// its files stand for them.
inline constexpr std::uintmax_t kLargestInput = 256 << 20;

/// How the inputs are now: {"/data/root": {"files", "bytes", "names", "content", "modified"}}, where `names` is a
/// SHA-256 of the names and sizes, `content` one of the bytes or null, `modified` one of names and times. null for
/// what is not there. Hidden files and folders, those of other runs and of sweeps are left out; no link to a folder is
/// followed. No path is in it.
nlohmann::ordered_json input_record(const std::vector<InputPath>& inputs, std::uintmax_t largest = kLargestInput);

/// What has become of an input since.
struct InputChange {
  std::string pointer;
  std::string text;  ///< "24 files with 1.20 MiB, and are now 25 with 1.21 MiB"
};

/// The inputs that both records name and that were there then, as far as they have changed. An input whose contents
/// are not in both records and whose files have other times counts as changed. Records may come from a file that
/// anything may have happened to.
std::vector<InputChange> input_changes(const nlohmann::ordered_json& before, const nlohmann::ordered_json& now);

}  // namespace runner
