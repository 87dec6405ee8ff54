#include "runner/shared/record/node_index.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/graph/node_document.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Returns the current state of the file `name`; nullopt if there is no regular file with that
/// name.
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

/// Flushes the file, so its contents survive a power cut once this returns.
void sync_file(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open() || disk().sync(*file) != 0)
    throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotWrite));
}

constexpr std::size_t kLargestEntry = 16 << 20;
constexpr std::size_t kKept = 256;     // number of entries per kind and id
constexpr std::size_t kCompared = 32;  // number of entries to compare to find the closest one

/// True if `name`, appended to a folder, names something inside that folder.
bool is_inside(const std::string& name) {
  const fs::path path(name);
  return !path.empty() && path.is_relative() &&
         std::ranges::none_of(path,
                              [](const fs::path& part) { return part == ".." || part == "."; });
}

json to_json(const IndexedNode& node) {
  json files = json::array();
  for (const NodeFile& file : node.files) files.push_back({file.name, file.size, file.modified});
  return {{"schema", 1},    {"run", node.run.string()}, {"date", node.date},
          {"files", files}, {"metrics", node.metrics},  {"document", node.document}};
}

/// Parses an entry; nullopt if to_json() did not create it.
std::optional<IndexedNode> from_text(const std::string& text) {
  const json object = parse_json<json>(text);
  try {
    if (object.at("schema") != 1) return std::nullopt;
    IndexedNode node{.document = object.at("document"),
                     .run = object.at("run").get<std::string>(),
                     .files = {},
                     .metrics = object.at("metrics"),
                     .date = object.at("date")};
    for (const json& file : object.at("files")) {
      node.files.push_back({.name = file.at(0), .size = file.at(1), .modified = file.at(2)});
      if (!is_inside(node.files.back().name)) return std::nullopt;
    }
    if (!node.run.is_absolute()) return std::nullopt;
    return node;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::optional<IndexedNode> read(const fs::path& path) {
  const auto text = real_file_system().read(path, kLargestEntry);
  return text ? from_text(*text) : std::nullopt;
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
  return std::ranges::all_of(
      files, [&](const NodeFile& file) { return look_at(folder, file.name) == file; });
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
    sync_file(target);
    sync_folder(target.parent_path());
  }
}

fs::path NodeIndex::file(const std::string& kind, const std::string& id,
                         const std::string& key) const {
  return folder_ / kind / id / (key + ".json");
}

fs::path NodeIndex::turn(const std::string& kind, const std::string& id,
                         const std::string& key) const {
  return folder_ / kind / id / ("." + key + ".turn");
}

bool NodeIndex::has(const std::string& kind, const std::string& id, const std::string& key) const {
  std::error_code error;
  return fs::exists(file(kind, id, key), error);
}

std::optional<IndexedNode> NodeIndex::find(const std::string& kind, const std::string& id,
                                           const std::string& key) const {
  auto node = read(file(kind, id, key));
  const bool is_sound = node && document_key(node->document) == key &&
                        are_unchanged(RunLayout(node->run).node(id).folder(), node->files);
  if (is_sound) return node;
  remove(kind, id, key);
  return std::nullopt;
}

std::optional<json> NodeIndex::nearest(const std::string& kind, const std::string& id,
                                       const json& document) const {
  std::optional<json> best;
  std::size_t fewest = 0;
  std::vector<fs::path> files = newest(folder_ / kind / id);
  if (files.size() > kCompared) files.resize(kCompared);
  for (const fs::path& path : files) {
    auto node = read(path);
    if (!node) continue;
    const std::size_t count = differences(node->document, document).size();
    if (best && count >= fewest) continue;
    best = std::move(node->document);
    fewest = count;
  }
  return best;
}

void NodeIndex::put(const std::string& kind, const std::string& id, const std::string& key,
                    const IndexedNode& node) const {
  const fs::path path = file(kind, id, key);
  fs::create_directories(path.parent_path());
  // Another run may be writing the same entry, so each run writes under its own file name.
  const fs::path own = path.parent_path() / ("." + key + "." + std::to_string(getpid()));
  write_atomically(own, to_json(node).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  fs::rename(own, path);
  const std::vector<fs::path> files = newest(path.parent_path());
  for (std::size_t i = kKept; i < files.size(); ++i) {
    std::error_code ignored;
    fs::remove(files[i], ignored);
  }
}

void NodeIndex::remove(const std::string& kind, const std::string& id,
                       const std::string& key) const {
  std::error_code ignored;
  fs::remove(file(kind, id, key), ignored);
}

/// Returns the entries in one folder, newest first.
std::vector<fs::path> NodeIndex::newest(const fs::path& below) const {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator at(below, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const auto time = fs::last_write_time(at->path(), gone);
    if (!gone && at->path().extension() == ".json") found.emplace_back(time, at->path());
  }
  std::ranges::sort(found, std::greater{});
  std::vector<fs::path> files;
  for (auto& [time, path] : found) files.push_back(std::move(path));
  return files;
}

fs::path node_index_folder() {
  const fs::path own = cache_folder();
  return own.empty() ? own : own / "nodes";
}

namespace {

constexpr std::size_t kLargest = 1 << 20;
constexpr std::string_view kCheckpoints = "checkpoints/";

using File = FinishedNode::File;

/// Returns the digest of a file; empty if the file is too large or cannot be read.
std::string digest_of(const std::filesystem::path& path, std::uintmax_t size) {
  Digest digest;
  return size <= kLargestDigested && digest.update_from(path) == 0 ? digest.finish() : "";
}

std::map<std::string, File> files_in(const std::filesystem::path& folder) {
  std::map<std::string, File> files;
  for (const NodeFile& file : node_files(folder)) {
    const bool is_in_checkpoint = file.name.starts_with(kCheckpoints) &&
                                  file.name.find('/', kCheckpoints.size()) != std::string::npos;
    if (is_in_checkpoint) continue;
    const bool is_pointer = file.name.starts_with(kCheckpoints);  // names a checkpoint
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

/// Reads a list of files. Older records contain only the sizes.
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

void write_finished(const std::filesystem::path& folder, const FinishedNode& node,
                    Storage& storage) {
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
    FinishedNode node{fields.text("key"), fields.number("seconds"),
                      fields.integer("peak_memory_bytes")};
    if (fields.has("reused_from")) node.reused_from = fields.text("reused_from");
    if (fields.has("reuse_key")) node.reuse_key = fields.text("reuse_key");
    if (fields.has("files")) node.files = files_from(fields.object("files"));
    return node;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

std::optional<std::string> what_is_missing(const std::filesystem::path& folder,
                                           const FinishedNode& node) {
  for (const auto& [name, file] : node.files) {
    const std::filesystem::path path = folder / name;
    std::error_code error;
    const std::uintmax_t now = std::filesystem::file_size(path, error);
    if (error) return "'" + path.string() + "' is missing";
    if (now != file.size)
      return "'" + path.string() + "' has " + std::to_string(now) + " bytes, not " +
             std::to_string(file.size);
    if (!file.sha256.empty() && digest_of(path, now) != file.sha256)
      return "'" + path.string() + "' does not match its recorded SHA-256";
  }
  if (!node.files.contains(std::string(kCheckpoints) + kLatestCheckpoint)) return std::nullopt;
  std::vector<std::string> damaged = damaged_checkpoints(NodeLayout(folder).checkpoints());
  return damaged.empty() ? std::nullopt : std::optional(std::move(damaged.front()));
}

}  // namespace runner
