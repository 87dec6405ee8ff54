#include "runner/shared/record/finished_node.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_system.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/checkpoint_name.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

constexpr std::size_t kLargest = 1 << 20;
constexpr std::string_view kCheckpoints = "checkpoints/";

using File = FinishedNode::File;

/// Empty where the file is too large for that, or cannot be read.
std::string digest_of(const std::filesystem::path& path, std::uintmax_t size) {
  Digest digest;
  return size <= kLargestDigested && digest.update_from(path) == 0 ? digest.finish() : "";
}

std::map<std::string, File> files_in(const std::filesystem::path& folder) {
  std::map<std::string, File> files;
  for (const NodeFile& file : node_files(folder)) {
    const bool is_in_checkpoint =
        file.name.starts_with(kCheckpoints) && file.name.find('/', kCheckpoints.size()) != std::string::npos;
    if (is_in_checkpoint) continue;
    const bool is_pointer = file.name.starts_with(kCheckpoints);  // which is followed
    files[file.name] = {file.size, is_pointer ? "" : digest_of(folder / file.name, file.size)};
  }
  return files;
}

nlohmann::ordered_json to_json(const std::map<std::string, File>& files) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, file] : files) {
    json[name] = {{"size", file.size}};
    if (!file.sha256.empty()) json[name]["sha256"] = file.sha256;
  }
  return json;
}

/// Older records hold the size alone.
std::map<std::string, File> files_from(const nlohmann::json& json) {
  const JsonFields sizes(json, "its list of files");
  std::map<std::string, File> files;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) {
      files[name].size = static_cast<std::uintmax_t>(sizes.count(name));
      continue;
    }
    const JsonFields file(value, "one of its files");
    files[name].size = static_cast<std::uintmax_t>(file.count("size"));
    if (file.has("sha256")) files[name].sha256 = file.text("sha256");
  }
  return files;
}

}  // namespace

void write_finished(const std::filesystem::path& folder, const FinishedNode& node, Storage& storage) {
  const nlohmann::ordered_json json = {{"schema", 1},
                                       {"key", node.key},
                                       {"seconds", node.seconds},
                                       {"peak_memory_bytes", node.peak_memory_bytes},
                                       {"reused_from", node.reused_from},
                                       {"reuse_key", node.reuse_key},
                                       {"files", to_json(files_in(folder))}};
  write_atomically(NodeLayout(folder).finished(), json.dump(2) + "\n", storage);
}

std::optional<FinishedNode> read_finished(const std::filesystem::path& folder) {
  const auto text = real_file_system().read(NodeLayout(folder).finished(), kLargest);
  if (!text) return std::nullopt;
  const auto json = parse_json<nlohmann::json>(*text);
  if (!json.is_object() || json.value("schema", nlohmann::json()) != 1) return std::nullopt;
  try {
    const JsonFields fields(json, "finished.json");
    FinishedNode node{fields.text("key"), fields.number("seconds"), fields.integer("peak_memory_bytes")};
    if (fields.has("reused_from")) node.reused_from = fields.text("reused_from");
    if (fields.has("reuse_key")) node.reuse_key = fields.text("reuse_key");
    if (fields.has("files")) node.files = files_from(fields.object("files"));
    return node;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

std::optional<std::string> what_is_missing(const std::filesystem::path& folder, const FinishedNode& node) {
  for (const auto& [name, file] : node.files) {
    const std::filesystem::path path = folder / name;
    std::error_code error;
    const std::uintmax_t now = std::filesystem::file_size(path, error);
    if (error) return "'" + path.string() + "' is missing";
    if (now != file.size)
      return "'" + path.string() + "' has " + std::to_string(now) + " bytes, not " + std::to_string(file.size);
    if (!file.sha256.empty() && digest_of(path, now) != file.sha256)
      return "'" + path.string() + "' is not what was written: its SHA-256 differs";
  }
  if (!node.files.contains(std::string(kCheckpoints) + kLatestCheckpoint)) return std::nullopt;
  std::vector<std::string> damaged = damaged_checkpoints(NodeLayout(folder).checkpoints());
  return damaged.empty() ? std::nullopt : std::optional(std::move(damaged.front()));
}

}  // namespace runner
