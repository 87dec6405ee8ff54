#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/fetch/download.h"
#include "tests/support/scoped_variable.h"

namespace stages {

/// A listener for fetches that never waits.
struct FetchListener {
  std::vector<std::string> said;
  std::vector<double> waits;
  std::vector<std::string> phases;
  std::function<bool()> is_canceled = [] { return false; };

  FetchCallbacks callbacks() {
    return {.progress =
                [this](const runner::Progress& progress) {
                  if (phases.empty() || phases.back() != progress.phase)
                    phases.push_back(progress.phase);
                },
            .say = [this](std::string_view line) { said.emplace_back(line); },
            .canceled = [this] { return is_canceled(); }};
  }
  Patience patience() {
    Patience patience;
    patience.wait = [this](double seconds) { waits.push_back(seconds); };
    return patience;
  }
};

inline std::string sum_of(runner::DigestKind kind, std::string_view bytes) {
  runner::Digest digest(kind);
  digest.update(bytes);
  return digest.finish();
}

}  // namespace stages
