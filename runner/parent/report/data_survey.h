#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// Returns the text that `retort data check` prints about the images of one data stage: a table of
/// the classes in each part, sizes and bytes. `survey` is an element of "data" in
/// schemas/output/data_check.json.
std::string data_survey_text(const nlohmann::ordered_json& survey, const TextStyle& style = {});

/// The recipe's options that decide how severe a finding is.
struct SurveyTolerance {
  bool copies = false;      ///< the recipe specifies what to do with images that are in two parts
  bool unreadable = false;  ///< the recipe says to skip unreadable images
};

/// Returns the problems with the images. Copies in two parts and unreadable images are errors
/// unless tolerated; other problems are warnings. All are reported at the stage.
Diagnostics data_survey_findings(const nlohmann::ordered_json& survey,
                                 const SurveyTolerance& tolerance);

}  // namespace runner
