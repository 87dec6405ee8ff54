#include "runner/parent/report/caption_similarity.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runner/parent/svg/heat_map.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

constexpr std::size_t kLargestSimilarities = 1 << 20;  // bytes
constexpr std::size_t kMostCaptions = 100;

/// Reads a row of finite numbers; empty if it contains anything else.
std::vector<double> row_of(const nlohmann::ordered_json& json) {
  std::vector<double> row;
  if (!json.is_array()) return row;
  for (const auto& one : json) {
    const double cosine = one.is_number() ? one.get<double>() : NAN;
    if (!std::isfinite(cosine)) return {};
    row.push_back(cosine);
  }
  return row;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The captions without the words at the beginning or end that all of them share.
struct DifferingWords {
  std::vector<std::string> captions;
  std::string shared;  // "a photo of a …, a type of car"; empty: none
};

DifferingWords differing_words(const std::vector<std::string>& captions) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& caption : captions) all.push_back(words_of(caption));
  std::size_t most = all.front().size();  // every caption keeps at least one word
  for (const auto& words : all) most = std::min(most, words.size());
  most = all.size() > 1 && most > 0 ? most - 1 : 0;
  const auto is_shared = [&](const auto& word_of) {
    return std::ranges::all_of(
        all, [&](const auto& words) { return word_of(words) == word_of(all.front()); });
  };
  std::size_t first = 0, last = 0;
  while (first < most && is_shared([&](const auto& words) { return words[first]; })) ++first;
  while (first + last < most &&
         is_shared([&](const auto& words) { return words[words.size() - 1 - last]; }))
    ++last;
  if (first + last == 0) return {captions, ""};
  const auto joined = [](const auto& words, std::size_t begin, std::size_t end) {
    return join(std::span(words).subspan(begin, end - begin), " ");
  };
  DifferingWords result;
  for (const auto& words : all)
    result.captions.push_back(joined(words, first, words.size() - last));
  const auto& words = all.front();
  result.shared = joined(words, 0, first) + (first > 0 ? " …" : "…") + (last > 0 ? " " : "") +
                  joined(words, words.size() - last, words.size());
  return result;
}

}  // namespace

std::optional<CaptionSimilarity> read_similarity(const std::filesystem::path& folder,
                                                 const std::string& node) {
  const auto text =
      real_file_system().read(RunLayout(folder).node(node).similarity(), kLargestSimilarities);
  const auto json = text ? parse_json(*text) : nlohmann::ordered_json();
  const auto is_list = [&](const char* key) { return json.contains(key) && json[key].is_array(); };
  if (!json.is_object() || !is_list("captions") || !is_list("cosines")) return {};
  CaptionSimilarity similarity;
  for (const auto& caption : json["captions"])
    similarity.captions.push_back(caption.is_string() ? caption.get<std::string>() : "");
  for (const auto& row : json["cosines"]) similarity.cosines.push_back(row_of(row));
  const std::size_t count = similarity.captions.size();
  const bool is_square =
      count > 0 && count <= kMostCaptions && similarity.cosines.size() == count &&
      std::ranges::all_of(similarity.cosines, [&](const auto& row) { return row.size() == count; });
  return is_square ? std::optional(std::move(similarity)) : std::nullopt;
}

Drawing draw_similarity(const CaptionSimilarity& similarity, const std::string& name) {
  double low = similarity.cosines[0][0], high = low;
  for (const auto& row : similarity.cosines) {
    low = std::min(low, *std::ranges::min_element(row));
    high = std::max(high, *std::ranges::max_element(row));
  }
  const std::size_t count = similarity.captions.size();
  const double cell = std::clamp(520.0 / static_cast<double>(count), 16.0, 72.0);
  const DifferingWords words = differing_words(similarity.captions);
  const double side = cell * static_cast<double>(count), top = words.shared.empty() ? 50 : 66;
  const double left = std::max(HeatMap::room_left(words.captions) + 10, 40.0);
  const std::string title = "Mean cosine of images (rows) and captions (columns)";
  const std::string shared = words.shared.empty() ? "" : "captions: " + shortened(words.shared, 60);
  const double width = std::max(left + side + 16 + HeatScale::kWidth, 480.0);
  Drawing drawing(
      width, top + side + HeatMap::room_below(words.captions) + 10,
      "Similarity of images and captions of " + name,
      "Mean cosine similarity between the images of each caption and each caption, from " +
          decimal(low, 2) + " to " + decimal(high, 2));
  drawing.text({width / 2, 28}, title, Align::kMiddle, "title");
  if (!shared.empty()) drawing.text({width / 2, 46}, shared, Align::kMiddle, "small");
  const HeatMap map(drawing, {left, top}, cell, count);
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t column = 0; column < count; ++column) {
      const double cosine = similarity.cosines[row][column];
      map.cell(row, column, high > low ? (cosine - low) / (high - low) : 0.5,
               "images of \"" + similarity.captions[row] + "\", text \"" +
                   similarity.captions[column] + "\": " + decimal(cosine, 3),
               cell < 40 ? "" : decimal(cosine, 2));
    }
    map.name(row, words.captions[row]);
  }
  draw_heat_scale(drawing, {left + side + 16, top}, std::clamp(side, 60.0, 240.0),
                  {decimal(low, 2), decimal(high, 2), "cosine"});
  return drawing;
}

}  // namespace runner
