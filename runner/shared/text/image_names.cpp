#include "runner/shared/text/image_names.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

constexpr std::array<std::string_view, 4> kReadEndings = {".jpg", ".jpeg", ".png", ".webp"};
constexpr std::array<std::string_view, 19> kOtherImageEndings = {
    ".avif", ".bmp", ".dcm", ".dng", ".exr", ".gif", ".heic", ".heif", ".jfif", ".jp2",
    ".jxl",  ".nef", ".pbm", ".pgm", ".ppm", ".psd", ".tga",  ".tif",  ".tiff"};

/// Returns the file extension in lower case, with its dot; empty if there is none or the file is
/// hidden.
std::string ending_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.starts_with('.')) return "";
  std::string ending(name.substr(dot));
  std::ranges::transform(ending, ending.begin(),
                         [](char c) { return 'A' <= c && c <= 'Z' ? c - 'A' + 'a' : c; });
  return ending;
}

std::int64_t sum_of(const std::map<std::string, std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const auto& [ending, count] : counts) sum += count;
  return sum;
}

/// Formats counts by extension: "10 .txt, 2 .svg and 3 more".
std::string counts_text(const std::map<std::string, std::int64_t>& counts) {
  constexpr std::size_t kMostEndings = 10, kLongestEnding = 20;
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto& item) { return item.second; });
  std::vector<std::string> texts;
  for (const auto& [ending, count] : sorted) {
    const std::string shown = printable(ending), start(first_columns(shown, kLongestEnding));
    texts.push_back(std::to_string(count) + " " + (shown.empty() ? "without an extension" : start) +
                    (start.size() < shown.size() ? "…" : ""));
  }
  return listed(texts, kMostEndings);
}

std::string counted_things(std::int64_t count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

}  // namespace

bool is_image_name(std::string_view name) {
  return std::ranges::find(kReadEndings, ending_of(name)) != kReadEndings.end();
}

bool is_other_image_name(std::string_view name) {
  return std::ranges::find(kOtherImageEndings, ending_of(name)) != kOtherImageEndings.end();
}

void NotTaken::file(std::string_view name) {
  if (name.starts_with('.')) {
    if (!name.starts_with(".retort-")) ++hidden_files_;
    return;
  }
  ++endings_[ending_of(name)];
  if (is_other_image_name(name)) ++other_images_[ending_of(name)];
}

void NotTaken::folder(std::string_view name) {
  ++(name.starts_with('.') ? hidden_folders_ : folders_);
}

void NotTaken::add(const NotTaken& other) {
  for (const auto& [ending, count] : other.endings_) endings_[ending] += count;
  for (const auto& [ending, count] : other.other_images_) other_images_[ending] += count;
  hidden_files_ += other.hidden_files_;
  folders_ += other.folders_;
  hidden_folders_ += other.hidden_folders_;
}

std::string NotTaken::text() const {
  std::vector<std::string> parts;
  if (!endings_.empty())
    parts.push_back(counted_things(sum_of(endings_), "file") +
                    " ignored: " + counts_text(endings_));
  if (hidden_files_ > 0) parts.push_back(counted_things(hidden_files_, "hidden file"));
  if (folders_ > 0) parts.push_back(counted_things(folders_, "folder") + " not searched");
  if (hidden_folders_ > 0) parts.push_back(counted_things(hidden_folders_, "hidden folder"));
  std::string text = join(parts, "; ");
  if (!text.empty() && endings_.empty()) text = "ignored: " + text;
  return text;
}

std::string NotTaken::other_images() const { return counts_text(other_images_); }

std::int64_t NotTaken::count_other_images() const { return sum_of(other_images_); }

}  // namespace runner
