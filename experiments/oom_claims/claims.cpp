#include "experiments/oom_claims/claim.h"

#include <cassert>

namespace oom_claims {

std::string name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kInPart:
      return "partly right";
    case Verdict::kWrong:
      return "wrong";
  }
  assert(false);
  return "";
}

std::vector<Claim> claims() {
  const std::string no_gpu = "needs two GPUs and their driver";
  return {
      {1, "000, 001", "stepping the optimizer only every 4th batch saves 75% of the memory",
       &late_step_saves_activations},
      {2, "000", "accumulating gradients saves memory for the optimizer state",
       &late_step_saves_optimizer_state},
      {3, "000, 001", "accumulating gradients does not change the training",
       &accumulation_is_equivalent},
      {4, "000, 001",
       "an allocation of 2.35 GiB failed because of fragmentation and because 105 images were "
       "processed at once",
       &batch_of_images_is_the_cause},
      {5, "000, 001, 002", "clearing the cache regularly removes fragmentation",
       &clearing_defragments},
      {6, "000", "expandable segments reduce fragmentation", &expandable_segments_help},
      {7, "000", "the allocator has to be configured before PyTorch is imported",
       &settings_must_precede_import},
      {8, "000", "fewer episodes per epoch need less memory", &fewer_episodes_help},
      {9, "001", "mixed precision halves the memory", &half_precision_halves_memory},
      {10, "001", "the forward and backward passes each need their own memory, and the two add up",
       &forward_and_backward_add_up},
      {11, "001", "mixed precision does not change the training", &half_precision_changes_nothing},
      {12, "002", "for CLIP, 8 batches of 16 are as good as one batch of 128",
       &small_contrastive_batches_are_equal},
      {13, "002", "limiting the process to 95% of the memory prevents out-of-memory errors",
       &memory_fraction_prevents_failure},
      {14, "002", "clipping gradients is a memory optimization", &clipping_saves_memory},
      {15, "002, 003", "deleting a tensor frees its memory at once", &deleting_frees_at_once},
      {16, "002", "a smaller prefetch factor saves GPU memory", &prefetching_takes_device_memory},
      {17, "003",
       "15.29 GB are in use because of fragmentation; 25.6 M parameters should need 5 to 6 GB",
       &fragmentation_fills_the_device},
      {18, "003", "loss.item() leaks memory, and loss.detach().item() does not",
       &detaching_ends_a_leak},
      {19, "003",
       "activation checkpointing saves 40% of the activations and takes 15 to 20% more time",
       &checkpointing_saves_two_fifths},
      {20, "003", "a higher dropout rate saves some memory", &more_dropout_saves_memory},
      {21, "003", "images of 192 instead of 224 pixels save 25% of the memory",
       &smaller_images_save_a_quarter},
      {22, "003", "3 batches of 6 can replace 2 batches of 8", &six_times_three_replaces_sixteen},
      {23, "003", "clearing the cache every 3 epochs prevents a failure in the 38th epoch",
       &clearing_outruns_a_leak},
      {24, "004", "a training run that ran out of memory can be retried with half the batch size",
       &retrying_with_half_a_batch_is_safe},
      {25, "004", "nvidia-smi says which GPU has the most free memory", nullptr, no_gpu},
      {26, "004",
       "if even one image does not fit, fewer loader threads or a smaller LoRA rank help",
       &smaller_rank_and_fewer_workers_help},
      {27, "004", "the CPU can replace a GPU that has too little memory", nullptr,
       "needs a GPU, to compare times and rounding"},
      {28, "004", "scaled gradients can be clipped without unscaling them first",
       &order_of_clipping_does_not_matter},
  };
}

}  // namespace oom_claims
