#pragma once

#include <span>
#include <string>

namespace runner {

/// A metric of which the smallest value is best, by its name: a loss, an error, a rank, a perplexity.
bool is_smaller_better(const std::string& metric);

/// The metric that tells most of what runs have come to, by which they are shown and compared: the accuracy of an
/// evaluation, of a validation, a validation's loss; else the first of an evaluation, of a validation, of a training;
/// else the first. A name may say its node before it, "vote:evaluate/top1"; one without counts before one with. Empty
/// where `names` is.
std::string main_metric(std::span<const std::string> names);

}  // namespace runner
