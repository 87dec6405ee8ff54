#include "runner/shared/stage/checkpoint_name.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <system_error>

namespace runner {

namespace fs = std::filesystem;

std::string to_text(const CheckpointName& name) {
  const std::string step = std::to_string(name.step);
  return "step-" + std::string(8 - std::min<std::size_t>(8, step.size()), '0') + step +
         (name.again > 0 ? "-" + std::to_string(name.again) : "");
}

std::optional<CheckpointName> checkpoint_name_from(std::string_view text) {
  constexpr std::string_view kStart = "step-";
  if (!text.starts_with(kStart)) return std::nullopt;
  const char* const end = text.data() + text.size();
  CheckpointName name;
  auto [at, error] = std::from_chars(text.data() + kStart.size(), end, name.step);
  if (error == std::errc() && at != end && *at == '-') {
    const auto again = std::from_chars(at + 1, end, name.again);
    at = again.ptr;
    error = again.ec;
  }
  // Of the several ways to write a number one is ours.
  return error == std::errc() && at == end && to_text(name) == text ? std::optional(name) : std::nullopt;
}

std::vector<CheckpointName> list_checkpoints(const fs::path& folder) {
  std::vector<CheckpointName> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto name = checkpoint_name_from(entry->path().filename().string());
    std::error_code ignored;
    if (name && fs::is_directory(entry->symlink_status(ignored))) names.push_back(*name);
  }
  std::ranges::sort(names, std::greater());
  return names;
}

std::optional<CheckpointName> pointed_to(const fs::path& pointer) {
  constexpr std::size_t kLongest = 64;
  std::error_code error;
  if (!fs::is_regular_file(pointer, error)) return std::nullopt;
  std::ifstream file(pointer, std::ios::binary);
  std::string text(kLongest, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!text.ends_with('\n')) return std::nullopt;
  text.pop_back();
  return checkpoint_name_from(text);
}

std::string no_checkpoint_named(const fs::path& pointer) {
  return "'" + pointer.string() + "' does not name a checkpoint";
}

}  // namespace runner
