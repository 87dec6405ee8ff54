#pragma once

#include <string>

#include "experiments/oom_claims/claim.h"

namespace oom_claims {

/// The heading of the table in Markdown, two lines.
std::string table_heading();
/// A claim's line of it, which takes measuring it.
std::string table_line(const Claim& claim);
/// The same for a terminal.
std::string paragraph(const Claim& claim);

}  // namespace oom_claims
