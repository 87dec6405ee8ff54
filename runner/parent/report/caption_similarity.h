#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/svg/drawing.h"

namespace runner {

/// The mean cosine similarity between the images of each caption and the text of each caption, as
/// recorded by a retrieval evaluation (similarity.json).
struct CaptionSimilarity {
  std::vector<std::string> captions;
  std::vector<std::vector<double>> cosines;  ///< square matrix: one row for the images of each
                                             ///< caption, one column for each text
};

/// Reads the similarities of the evaluated node; nullopt if there are none, or the file is damaged.
std::optional<CaptionSimilarity> read_similarity(const std::filesystem::path& folder,
                                                 const std::string& node);

/// Draws similarity.svg: rows are images by caption, columns are captions. A cell's color shows its
/// position between the smallest and the largest cosine.
Drawing draw_similarity(const CaptionSimilarity& similarity, const std::string& name);

}  // namespace runner
