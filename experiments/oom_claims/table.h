#pragma once

#include <string>

#include "experiments/oom_claims/claim.h"

namespace oom_claims {

/// Returns the two heading lines of the Markdown table.
std::string table_heading();
/// Measures a claim and returns its line for the table.
std::string table_line(const Claim& claim);
/// Measures a claim and returns a paragraph about it for a terminal.
std::string paragraph(const Claim& claim);

}  // namespace oom_claims
