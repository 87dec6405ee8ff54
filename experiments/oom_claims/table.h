#pragma once

#include <string>

#include "experiments/oom_claims/claim.h"

namespace oom_claims {

/// Returns the heading of the Markdown table, two lines.
std::string table_heading();
/// Measures a claim and returns its line of the table.
std::string table_line(const Claim& claim);
/// Measures a claim and returns a paragraph about it for a terminal.
std::string paragraph(const Claim& claim);

}  // namespace oom_claims
