#include "experiments/oom_claims/table.h"

namespace oom_claims {

std::string table_heading() {
  return "| # | claim | source | measured | verdict | what is true |\n"
         "|---|---|---|---|---|---|\n";
}

std::string table_line(const Claim& claim) {
  const std::string head =
      "| " + std::to_string(claim.row) + " | " + claim.text + " | " + claim.source + " | ";
  if (!claim.measure) return head + claim.why_not + " | not shown here | |\n";
  const Finding finding = claim.measure();
  return head + finding.measured + " | " + name(finding.verdict) + " | " + finding.instead + " |\n";
}

std::string paragraph(const Claim& claim) {
  const std::string head =
      std::to_string(claim.row) + ". \"" + claim.text + "\" (" + claim.source + ")\n";
  if (!claim.measure) return head + "   not shown here: " + claim.why_not + "\n";
  const Finding finding = claim.measure();
  return head + "   measured: " + finding.measured + "\n   " + name(finding.verdict) + ": " +
         finding.instead + "\n";
}

}  // namespace oom_claims
