#include "runner/parent/registry/run_tags.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_system.h"
#include "runner/shared/disk/lock_folder.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestTags = 1 << 20;
constexpr std::size_t kLongestTag = 120;

bool is_tag(const std::string& text) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= kLongestTag && text[0] != '.' && std::ranges::all_of(text, is_part);
}

/// Of the folder itself: its record has another lock, which a run holds as long as it is at work.
bool wait_for_lock(const Descriptor& folder) {
  using namespace std::chrono_literals;
  for (int tries = 0; tries < 100; ++tries) {
    if (try_lock(folder) || errno != EWOULDBLOCK) return true;  // a file system without locks has nobody who could
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> read_tags(const std::filesystem::path& folder) {
  const std::filesystem::path path = RunLayout(folder).tags();
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return std::vector<std::string>();
  const auto text = real_file_system().read(path, kLargestTags);
  const Json json = text ? parse_json<Json>(*text) : Json();
  const Json tags = json.is_object() && json.value("schema", Json()) == 1 ? json.value("tags", Json()) : Json();
  std::set<std::string> read;
  bool is_whole = tags.is_array();
  for (const Json& tag : is_whole ? tags : Json::array()) {
    if (tag.is_string() && is_tag(tag)) read.insert(tag.get<std::string>());
    else is_whole = false;
  }
  if (is_whole) return std::vector<std::string>(read.begin(), read.end());
  return Diagnostic{ErrorCode::kDamagedRecord,
                    {},
                    "",
                    "the tags in '" + path.string() + "' cannot be read",
                    "remove the file, and tag the run again"};
}

Result<std::vector<std::string>> change_tags(const std::filesystem::path& folder, std::span<const std::string> added,
                                             std::span<const std::string> removed, Storage& storage) {
  for (const std::span<const std::string> all : {added, removed}) {
    for (const std::string& tag : all) {
      if (is_tag(tag)) continue;
      return Diagnostic{ErrorCode::kUsage,
                        {},
                        "",
                        "'" + printable_ascii(tag) + "' is no name for a tag",
                        "letters, digits, '.', '_' and '-', up to 120 of them and no dot in front"};
    }
  }
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) throw WriteError(write_diagnostic(folder, errno, ErrorCode::kCannotWrite));
  if (!wait_for_lock(opened)) {
    return Diagnostic{ErrorCode::kRunBusy,
                      {},
                      "",
                      "another process is at the tags of '" + folder.string() + "'",
                      "try again when it has ended"};
  }
  const auto before = read_tags(folder);
  if (!before) return before.errors();
  std::set<std::string> tags(before->begin(), before->end());
  tags.insert(added.begin(), added.end());
  for (const std::string& tag : removed) tags.erase(tag);
  std::vector<std::string> after(tags.begin(), tags.end());
  if (after != *before) {
    write_atomically(RunLayout(folder).tags(), Json{{"schema", 1}, {"tags", after}}.dump(2) + "\n", storage);
  }
  return after;
}

}  // namespace runner
