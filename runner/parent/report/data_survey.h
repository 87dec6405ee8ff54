#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The text of `retort data check` about the images of one data stage, an element of "data" in
/// schemas/output/data_check.json: a table of the classes of each split, sizes and bytes.
std::string data_survey_text(const nlohmann::ordered_json& survey);

/// The recipe's options that decide how severe a finding is.
struct SurveyTolerance {
  bool copies = false;      ///< the recipe says what to do with an image in two splits
  bool unreadable = false;  ///< the recipe says to skip unreadable images
};

/// Problems with the images. Copies in two splits and unreadable images are errors unless
/// tolerated; the rest are warnings. Only the stage is given as a place.
Diagnostics data_survey_findings(const nlohmann::ordered_json& survey,
                                 const SurveyTolerance& tolerance);

/// A table of rows; the first row is the head. Columns are two blanks apart, and no line ends in
/// blanks. Cells that begin with a digit, a sign or a dash are aligned right, together with their
/// head.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace runner
