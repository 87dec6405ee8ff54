#include "stages/retina/voting.h"

#include "runner/shared/stage/config_reader.h"

namespace stages {

Voting read_voting(runner::ConfigReader& reader) {
  Voting voting;
  voting.decides = runner::choice<VoteRule>(reader, "decide_by", kVoteRules);
  voting.options.tie_break = runner::choice<TieBreak>(reader, "tie_break", kTieBreaks);
  reader.read("threshold", voting.options.threshold);
  reader.read("temperature", voting.options.temperature);
  reader.read("abstain_below", voting.abstain_below);
  return voting;
}

}  // namespace stages
