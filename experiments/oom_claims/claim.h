#pragma once

#include <string>
#include <vector>

namespace oom_claims {

/// The result of measuring a claim.
enum class Verdict { kRight, kInPart, kWrong };
/// Returns "right", "partly right" or "wrong".
std::string name(Verdict verdict);

/// What was measured, in one line, and the conclusion.
struct Finding {
  Verdict verdict = Verdict::kWrong;
  std::string measured;
  std::string instead;  ///< what is true
};

/// A claim from the five write-ups about training with little memory.
struct Claim {
  int row;             ///< its number in the table
  std::string source;  ///< the write-ups that make the claim, such as "000, 001"
  std::string text;    ///< the claim in our words
  /// Measures the claim. The verdict depends only on the measurements, so it is the same on every
  /// machine. Null if the claim cannot be measured without a GPU.
  Finding (*measure)();
  std::string why_not = {};  ///< the reason why `measure` is null
};

/// Returns all claims, sorted by row.
std::vector<Claim> claims();

// Row and source file of each measurement:
Finding late_step_saves_activations();          // 1   accumulation.cpp
Finding late_step_saves_optimizer_state();      // 2
Finding accumulation_is_equivalent();           // 3
Finding batch_of_images_is_the_cause();         // 4   covariance.cpp
Finding clearing_defragments();                 // 5   clearing.cpp
Finding expandable_segments_help();             // 6
Finding settings_must_precede_import();         // 7   settings.cpp
Finding fewer_episodes_help();                  // 8   accumulation.cpp
Finding half_precision_halves_memory();         // 9   precision.cpp
Finding forward_and_backward_add_up();          // 10  curve.cpp
Finding half_precision_changes_nothing();       // 11  precision.cpp
Finding small_contrastive_batches_are_equal();  // 12  accumulation.cpp
Finding memory_fraction_prevents_failure();     // 13  clearing.cpp
Finding clipping_saves_memory();                // 14  clipping.cpp
Finding deleting_frees_at_once();               // 15  lifetimes.cpp
Finding prefetching_takes_device_memory();      // 16  loading.cpp
Finding fragmentation_fills_the_device();       // 17  clearing.cpp
Finding detaching_ends_a_leak();                // 18  lifetimes.cpp
Finding checkpointing_saves_two_fifths();       // 19  recomputation.cpp
Finding more_dropout_saves_memory();            // 20  dropout.cpp
Finding smaller_images_save_a_quarter();        // 21  curve.cpp
Finding six_times_three_replaces_sixteen();     // 22  accumulation.cpp
Finding clearing_outruns_a_leak();              // 23  clearing.cpp
Finding retrying_with_half_a_batch_is_safe();   // 24  retry.cpp
Finding smaller_rank_and_fewer_workers_help();  // 26  lora.cpp
Finding order_of_clipping_does_not_matter();    // 28  clipping.cpp

}  // namespace oom_claims
