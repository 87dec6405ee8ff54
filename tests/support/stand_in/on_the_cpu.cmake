# The tests that run on the stand-in for a GPU: those in these files with fixtures that take their device from
# test_device(),
set(rooms_of_stand_in "^(adapters|contrastive|evaluate|few_shot|gpu|retina|train|worker)/|^data/features_|^random/apply_dropout_")

# but no file of
set(files_on_the_cpu
    # plans for a CPU, counted by its allocator
    train/budget train/certify train/fits_first_time train/long_run train/plan_training train/repeated_parts
    train/shared_traces
    # blocks that a CPU's allocator refuses (stand_in/refused_blocks_test.cpp refuses those of a GPU)
    train/out_of_memory train/step_recovery
    # files that compute nothing on a device
    adapters/data_ adapters/model_ contrastive/caption_rows contrastive/data_ contrastive/model_clip contrastive/pair_work
    contrastive/stanford_cars_list evaluate/trained_images few_shot/data_ few_shot/episode_model few_shot/few_shot_list
    few_shot/model_ retina/data_ retina/fundus_list retina/image_survey retina/remarks train/early_stopping
    train/training_log worker/feature_map_picture worker/worker)

# and none of these tests:
set(tests_on_the_cpu
    # plans of small networks, which differ by less than what CUDA itself takes
    Contrastive.TwoPassMemoryDoesNotGrowWithTheBatch
    ContrastiveAdapters.PlanHasGradientsAndStateOfOnlyTheAdapters
    Episodic.CovarianceFormsAgreeAndDifferInMemory
    EpisodicEvaluation.PlanCoversOneEpisodeAtATime
    PrototypeEvaluationTest.PlanCoversOneEpisodeAtATime
    Supervised.OutOfMemoryRepeatsThePlanSearch
    # terms of a plan for a CPU
    Classification.PlanCountsLabelsAndCurvesOfAllSamples
    FeaturesTest.PlanCountsTheirMemory
    LogisticRegression.PlanCountsTheFit
    LogisticRegression.PlanIncludesTheCalibration
    # a CPU's allocator counts or refuses blocks
    CovarianceLoss.DirectFormNeedsFourMatricesForAnyBatch
    CovarianceLoss.GramFormOfFlattenedEpisodeFeaturesIsSmall
    MemoryLog.LeakInATrainingStepIsAttributedToOther
    StepsInBackward.GradientsDoNotAllExistAtOnce
    StepsInBackward.StepIsRepeatedUnlessAWeightIsWritten
    StepsInBackward.FailureBeforeTheFirstWriteCanBeUndone
    Transaction.FirstStepOfAmsgradAndUnfusedRulesIsReplayed
    Transaction.PersistentFaultSplitsTheBatch
    Transaction.PersistentFaultIn*
    Transaction.LargerNetworkIsReplayedBitForBit
    Transaction.Replay*
    Transaction.RetriesAreCountedForEachStep
    Transaction.StepThatRunsOutOfMemoryIsReplayedBitForBit
    # lines and layouts of a CPU
    Classification.MemoryPolicySetsHowTheNetworkRuns
    StepsInBackward.OffloadingReportsNoEffectOnACpu
    Trainer.SmokeRunHasTwoStepsAndTwoBatches
    TrainerNumerics.LayoutFollowsTheRuleAndChangesOnlyRounding
    # steps that a GPU reports one step later
    Resume.CheckpointFromAnotherTrainingIsRejected
    Resume.DamagedCheckpointIsSkippedAndReported
    Resume/EveryTraining.ContinuesToTheSameBits/without_validation
    Trainer.CanceledRunStopsAfterTheStep
    # the same paths with more numbers, which take seconds
    ActivationCheckpointing.TowersKeepTheirBits
    Contrastive.EncodingOnceDoesNotChangeEqualCaptions
    Contrastive.LogitScaleStaysBelowItsLimit
    Contrastive.SigmoidLossLearnsToMatchImagesAndCaptions
    Contrastive.TwoPassSigmoidLossMatchesTheWholeBatch
    Contrastive.TwoPassesMatchTheWholeBatchButAccumulationDoesNot
    ContrastiveAdapters.LearnToMatchImagesAndCaptions
    GpuOffload.StateIsNotOnTheGpuBetweenSteps
    GpuOffload.WeightsAndStateAreEqualBitForBit
    OffloadedOptimizer.SavedStateContinuesInTheOtherMode
    ShardedOptimizer.RanksExchangeUpdatedWeights
    TwoPass.ContrastiveLossMatchesTheWholeBatch)

list(JOIN files_on_the_cpu "|" files_on_the_cpu)
set(files_on_the_cpu "^(${files_on_the_cpu})")
list(JOIN tests_on_the_cpu ":" tests_on_the_cpu)
