#include "stages/machine/allocator_settings.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <c10/core/AllocatorConfig.h>

#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using runner::ErrorCode;
using runner::StageError;

std::string text_of(double number) {
  std::array<char, 32> text;
  const int size = std::snprintf(text.data(), text.size(), "%.17g", number);
  for (int digits = 1; digits < 17; ++digits) {  // the shortest string that parses to the same
                                                 // number
    std::array<char, 32> shorter;
    const int length = std::snprintf(shorter.data(), shorter.size(), "%.*g", digits, number);
    if (std::strtod(shorter.data(), nullptr) == number)
      return {shorter.data(), static_cast<std::size_t>(length)};
  }
  return {text.data(), static_cast<std::size_t>(size)};
}

/// Returns the keys and values in the order in which to_text() writes them.
std::vector<std::pair<std::string, std::string>> pairs(const AllocatorSettings& settings) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (settings.expandable_segments)
    pairs.emplace_back("expandable_segments", *settings.expandable_segments ? "True" : "False");
  if (settings.max_split_size_mb)
    pairs.emplace_back("max_split_size_mb", std::to_string(*settings.max_split_size_mb));
  if (settings.garbage_collection_threshold)
    pairs.emplace_back("garbage_collection_threshold",
                       text_of(*settings.garbage_collection_threshold));
  if (settings.roundup_power2_divisions)
    pairs.emplace_back("roundup_power2_divisions",
                       std::to_string(*settings.roundup_power2_divisions));
  return pairs;
}

/// Returns the value of `key` in `conf`, "key:value,key:value"; nullopt if it is not set. A value
/// in brackets is returned as written.
std::optional<std::string> value_in(std::string_view conf, std::string_view key) {
  std::string plain;
  for (const char c : conf) {
    if (c != ' ' && c != '\t') plain += c;
  }
  std::optional<std::string> found;
  int depth = 0;
  for (std::size_t begin = 0, at = 0; at <= plain.size(); ++at) {
    if (at < plain.size() && plain[at] == '[') ++depth;
    if (at < plain.size() && plain[at] == ']') --depth;
    if (at < plain.size() && (plain[at] != ',' || depth > 0)) continue;
    const std::string_view item = std::string_view(plain).substr(begin, at - begin);
    if (item.starts_with(key) && item.size() > key.size() && item[key.size()] == ':')
      found = std::string(item.substr(key.size() + 1));  // the last value wins
    begin = at + 1;
  }
  return found;
}

/// LibTorch reads its variables on first use, and throws if it cannot parse one.
void let_libtorch_read_its_variables() {
  try {
    Config::instance();
  } catch (const std::exception& error) {
    std::string said;
    for (const AllocatorVariable& one : allocator_variables())
      said += (said.empty() ? "" : ", ") + one.name + "=" + one.value;
    const std::string_view what = error.what();
    throw StageError(ErrorCode::kOptionConflict, "LibTorch does not understand " + said + ": " +
                                                     std::string(what.substr(0, what.find('\n'))))
        .at("/allocator")
        .with_help("unset the variable, or write it as expandable_segments:True");
  }
}

/// Throws because a setting from another source conflicts with `settings`. Apart from variables,
/// that source can only be an earlier memory policy: its settings stay in force until the process
/// ends.
[[noreturn]] void refuse_conflict(const AllocatorSettings& settings, std::int64_t max_split) {
  const std::pair<std::string, std::string> segments("expandable_segments", "True"),
      split("max_split_size_mb", std::to_string(max_split));
  const auto& [key, value] = settings.expandable_segments ? split : segments;
  std::string source = "another memory policy of this run", remedy = "set it in only one policy";
  for (const AllocatorVariable& one : allocator_variables()) {
    if (value_in(one.value, key) != value) continue;
    source = one.name;
    remedy = "unset " + one.name;
  }
  throw StageError(ErrorCode::kOptionConflict, "expandable_segments and max_split_size_mb " +
                                                   split.second + " cannot be combined: " + source +
                                                   " sets " + key)
      .at("/allocator")
      .with_help("set allocator.expandable_segments: false, or " + remedy);
}

/// Returns the common value of all entries; nullopt if they differ or disable rounding.
std::optional<std::int64_t> divisions(const std::vector<std::size_t>& list) {
  if (list.empty() || list.front() == 0 ||
      std::ranges::count(list, list.front()) != std::ssize(list))
    return {};
  return static_cast<std::int64_t>(list.front());
}

}  // namespace

std::string to_text(const AllocatorSettings& settings) {
  std::string text;
  for (const auto& [key, value] : pairs(settings))
    text += (text.empty() ? "" : ",") + key + ":" + value;
  return text;
}

AllocatorSettings allocator_settings_in_force() {
  let_libtorch_read_its_variables();
  AllocatorSettings settings;
  if (Config::use_expandable_segments()) settings.expandable_segments = true;
  if (Config::max_split_size() != std::numeric_limits<std::size_t>::max())
    settings.max_split_size_mb = static_cast<std::int64_t>(Config::max_split_size() >> 20);
  if (const double share = Config::garbage_collection_threshold(); share > 0)
    settings.garbage_collection_threshold = share;
  settings.roundup_power2_divisions = divisions(Config::roundup_power2_divisions());
  return settings;
}

std::vector<AllocatorVariable> allocator_variables() {
  std::vector<AllocatorVariable> set;
  for (const char* const name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    if (const char* const value = std::getenv(name); value && *value) set.push_back({name, value});
  }
  return set;
}

std::vector<std::string> apply_settings(const AllocatorSettings& settings) {
  let_libtorch_read_its_variables();
  const auto wanted = pairs(settings);
  std::vector<std::string> lines;
  for (const AllocatorVariable& one : allocator_variables()) {
    for (const auto& [key, value] : wanted) {
      const auto said = value_in(one.value, key);
      if (said && *said != value)
        lines.push_back("allocator: " + key + ": " + value +
                        " from the recipe takes precedence over " + one.name + ", which sets " +
                        *said);
    }
  }
  if (!wanted.empty()) {
    // LibTorch resets every setting that is missing from the new text, so the previous text comes
    // first. If a key occurs twice, the last value wins.
    const std::string before = c10::CachingAllocator::getAllocatorSettings();
    c10::CachingAllocator::setAllocatorSettings((before.empty() ? "" : before + ",") +
                                                to_text(settings));
  }

  AllocatorSettings in_force = allocator_settings_in_force();
  if (in_force.expandable_segments && in_force.max_split_size_mb)
    refuse_conflict(settings, *in_force.max_split_size_mb);
  // Only the settings in `wanted` are compared; false is LibTorch's default.
  if (!in_force.expandable_segments) in_force.expandable_segments = false;
  const auto found = pairs(in_force);
  for (const auto& pair : wanted) {
    if (std::ranges::find(found, pair) == found.end())
      throw StageError(ErrorCode::kStageFailed, "LibTorch was asked to set " + pair.first + ":" +
                                                    pair.second + " but uses " + to_text(in_force))
          .at("/allocator/" + pair.first)
          .with_help("this is a bug in Retort");
  }
  return lines;
}

}  // namespace stages
