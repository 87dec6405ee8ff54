#include "runner/report/certificate_text.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "runner/text/printable.h"
#include "runner/report/table.h"

namespace runner {
namespace {

/// "3.1e-16", "0", "inf".
std::string scientific(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : "inf";
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

std::string verdict(const Certificate& certificate) {
  const std::string node = printable(certificate.node);
  if (!certificate.refused.empty()) return "FAIL  " + node + ": " + printable(certificate.refused);
  if (certificate.parameters.empty()) return "FAIL  " + node + ": no gradient was compared";
  const std::string errors = "the largest relative error of " + std::to_string(certificate.parameters.size()) +
                             (certificate.parameters.size() == 1 ? " gradient is " : " gradients is ") +
                             scientific(certificate.worst());
  const std::string limit = scientific(Certificate::kLimit);
  if (!(certificate.worst() < Certificate::kLimit)) return "FAIL  " + node + ": " + errors + ", not below " + limit;
  if (!certificate.changed.empty())
    return "FAIL  " + node + ": " + errors +
           ", but not only the gradient counts: " + printable(certificate.changed.front());
  return "PASS  " + node + ": " + errors + ", below " + limit;
}

}  // namespace

std::string certificate_text(const Certificate& certificate) {
  std::string text;
  if (!certificate.compared.empty())
    text += printable(certificate.node) + ", in float64: " + printable(certificate.compared) + "\n";
  std::vector<std::vector<std::string>> rows = {{"error", "gradient of"}};
  for (const auto& [name, error] : certificate.parameters) rows.push_back({scientific(error), printable(name)});
  if (rows.size() > 1) text += table_text(rows);
  for (const std::string& changed : certificate.changed) text += "changed: " + printable(changed) + "\n";
  return text + verdict(certificate) + "\n";
}

}  // namespace runner
