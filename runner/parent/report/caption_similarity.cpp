#include "runner/parent/report/caption_similarity.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/parent/svg/heat_map.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

constexpr std::size_t kLargestSimilarities = 1 << 20;  // bytes
constexpr std::size_t kMostCaptions = 100;

/// Reads a row of finite numbers; empty if it is not one.
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
  const double side = cell * static_cast<double>(count), left = 190, top = 50;
  Drawing drawing(
      left + side + 30, top + side + 160, "Similarity of images and captions of " + name,
      "Mean cosine similarity between the images of each caption and each caption, from " +
          decimal(low, 2) + " to " + decimal(high, 2));
  drawing.text({left + side / 2, 28}, "Mean cosine of images (rows) and captions (columns)",
               Align::kMiddle, "title");
  const HeatMap map(drawing, {left, top}, cell, count);
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t column = 0; column < count; ++column) {
      const double cosine = similarity.cosines[row][column];
      map.cell(row, column, high > low ? (cosine - low) / (high - low) : 0.5,
               "images of \"" + similarity.captions[row] + "\", text \"" +
                   similarity.captions[column] + "\": " + decimal(cosine, 3),
               cell < 40 ? "" : decimal(cosine, 2));
    }
    map.name(row, similarity.captions[row]);
  }
  return drawing;
}

}  // namespace runner
