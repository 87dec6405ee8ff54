#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What `retort data check` says of the pictures of one data stage, an element of "data" in
/// schemas/output/data_check.json, as text: a table of the classes of each part, sizes and bytes.
std::string data_survey_text(const nlohmann::ordered_json& survey);

/// What of the recipe's options decides how bad a finding is.
struct SurveyTolerance {
  bool copies = false;      ///< one picture in two parts: the recipe says what becomes of it
  bool unreadable = false;  ///< the recipe says to skip them
};

/// What is wrong with the pictures: errors, for copies in two parts and pictures that cannot be
/// read unless they are tolerated, and warnings. Without a place but the stage's.
Diagnostics data_survey_findings(const nlohmann::ordered_json& survey,
                                 const SurveyTolerance& tolerance);

/// Rows of cells below each other, columns two blanks apart, no blanks at a line's end; the first
/// row is the head. Cells that begin with a digit, a sign or a dash stand at the right of their
/// column, together with its head.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace runner
