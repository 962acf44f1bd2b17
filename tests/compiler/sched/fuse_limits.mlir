// tsr-fuse: a kernel has at most 48 ops and 28 operands and results.
// RUN: tessera-opt %s --tsr-fuse | FileCheck %s

// CHECK-LABEL: tsr_graph.trace "ops"
// CHECK: %v48 = tsr_sched.kernel @k47 at 47 steps [0, 1, {{.*}}, 46, 47] inputs [0] outputs [48]
// CHECK: %v60 = tsr_sched.kernel @k59 at 59 steps [48, 49, {{.*}}, 58, 59] inputs [48] outputs [60]
// CHECK-NOT: tsr_sched.kernel
!r = tensor<16xf32>
tsr_graph.trace "ops" values [0] strides [[]] (%v0: !r) {
  %v1 = tsr_graph.neg %v0 step 0 values [1] until [1] : (!r) -> !r
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [2] : (!r) -> !r
  %v3 = tsr_graph.neg %v2 step 2 values [3] until [3] : (!r) -> !r
  %v4 = tsr_graph.neg %v3 step 3 values [4] until [4] : (!r) -> !r
  %v5 = tsr_graph.neg %v4 step 4 values [5] until [5] : (!r) -> !r
  %v6 = tsr_graph.neg %v5 step 5 values [6] until [6] : (!r) -> !r
  %v7 = tsr_graph.neg %v6 step 6 values [7] until [7] : (!r) -> !r
  %v8 = tsr_graph.neg %v7 step 7 values [8] until [8] : (!r) -> !r
  %v9 = tsr_graph.neg %v8 step 8 values [9] until [9] : (!r) -> !r
  %v10 = tsr_graph.neg %v9 step 9 values [10] until [10] : (!r) -> !r
  %v11 = tsr_graph.neg %v10 step 10 values [11] until [11] : (!r) -> !r
  %v12 = tsr_graph.neg %v11 step 11 values [12] until [12] : (!r) -> !r
  %v13 = tsr_graph.neg %v12 step 12 values [13] until [13] : (!r) -> !r
  %v14 = tsr_graph.neg %v13 step 13 values [14] until [14] : (!r) -> !r
  %v15 = tsr_graph.neg %v14 step 14 values [15] until [15] : (!r) -> !r
  %v16 = tsr_graph.neg %v15 step 15 values [16] until [16] : (!r) -> !r
  %v17 = tsr_graph.neg %v16 step 16 values [17] until [17] : (!r) -> !r
  %v18 = tsr_graph.neg %v17 step 17 values [18] until [18] : (!r) -> !r
  %v19 = tsr_graph.neg %v18 step 18 values [19] until [19] : (!r) -> !r
  %v20 = tsr_graph.neg %v19 step 19 values [20] until [20] : (!r) -> !r
  %v21 = tsr_graph.neg %v20 step 20 values [21] until [21] : (!r) -> !r
  %v22 = tsr_graph.neg %v21 step 21 values [22] until [22] : (!r) -> !r
  %v23 = tsr_graph.neg %v22 step 22 values [23] until [23] : (!r) -> !r
  %v24 = tsr_graph.neg %v23 step 23 values [24] until [24] : (!r) -> !r
  %v25 = tsr_graph.neg %v24 step 24 values [25] until [25] : (!r) -> !r
  %v26 = tsr_graph.neg %v25 step 25 values [26] until [26] : (!r) -> !r
  %v27 = tsr_graph.neg %v26 step 26 values [27] until [27] : (!r) -> !r
  %v28 = tsr_graph.neg %v27 step 27 values [28] until [28] : (!r) -> !r
  %v29 = tsr_graph.neg %v28 step 28 values [29] until [29] : (!r) -> !r
  %v30 = tsr_graph.neg %v29 step 29 values [30] until [30] : (!r) -> !r
  %v31 = tsr_graph.neg %v30 step 30 values [31] until [31] : (!r) -> !r
  %v32 = tsr_graph.neg %v31 step 31 values [32] until [32] : (!r) -> !r
  %v33 = tsr_graph.neg %v32 step 32 values [33] until [33] : (!r) -> !r
  %v34 = tsr_graph.neg %v33 step 33 values [34] until [34] : (!r) -> !r
  %v35 = tsr_graph.neg %v34 step 34 values [35] until [35] : (!r) -> !r
  %v36 = tsr_graph.neg %v35 step 35 values [36] until [36] : (!r) -> !r
  %v37 = tsr_graph.neg %v36 step 36 values [37] until [37] : (!r) -> !r
  %v38 = tsr_graph.neg %v37 step 37 values [38] until [38] : (!r) -> !r
  %v39 = tsr_graph.neg %v38 step 38 values [39] until [39] : (!r) -> !r
  %v40 = tsr_graph.neg %v39 step 39 values [40] until [40] : (!r) -> !r
  %v41 = tsr_graph.neg %v40 step 40 values [41] until [41] : (!r) -> !r
  %v42 = tsr_graph.neg %v41 step 41 values [42] until [42] : (!r) -> !r
  %v43 = tsr_graph.neg %v42 step 42 values [43] until [43] : (!r) -> !r
  %v44 = tsr_graph.neg %v43 step 43 values [44] until [44] : (!r) -> !r
  %v45 = tsr_graph.neg %v44 step 44 values [45] until [45] : (!r) -> !r
  %v46 = tsr_graph.neg %v45 step 45 values [46] until [46] : (!r) -> !r
  %v47 = tsr_graph.neg %v46 step 46 values [47] until [47] : (!r) -> !r
  %v48 = tsr_graph.neg %v47 step 47 values [48] until [48] : (!r) -> !r
  %v49 = tsr_graph.neg %v48 step 48 values [49] until [49] : (!r) -> !r
  %v50 = tsr_graph.neg %v49 step 49 values [50] until [50] : (!r) -> !r
  %v51 = tsr_graph.neg %v50 step 50 values [51] until [51] : (!r) -> !r
  %v52 = tsr_graph.neg %v51 step 51 values [52] until [52] : (!r) -> !r
  %v53 = tsr_graph.neg %v52 step 52 values [53] until [53] : (!r) -> !r
  %v54 = tsr_graph.neg %v53 step 53 values [54] until [54] : (!r) -> !r
  %v55 = tsr_graph.neg %v54 step 54 values [55] until [55] : (!r) -> !r
  %v56 = tsr_graph.neg %v55 step 55 values [56] until [56] : (!r) -> !r
  %v57 = tsr_graph.neg %v56 step 56 values [57] until [57] : (!r) -> !r
  %v58 = tsr_graph.neg %v57 step 57 values [58] until [58] : (!r) -> !r
  %v59 = tsr_graph.neg %v58 step 58 values [59] until [59] : (!r) -> !r
  %v60 = tsr_graph.neg %v59 step 59 values [60] until [end] : (!r) -> !r
}

// CHECK-LABEL: tsr_graph.trace "views"
// CHECK: tsr_sched.kernel
// CHECK: tsr_sched.kernel
tsr_graph.trace "views" values [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31] strides [[], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []] (%v0: !r, %v1: !r, %v2: !r, %v3: !r, %v4: !r, %v5: !r, %v6: !r, %v7: !r, %v8: !r, %v9: !r, %v10: !r, %v11: !r, %v12: !r, %v13: !r, %v14: !r, %v15: !r, %v16: !r, %v17: !r, %v18: !r, %v19: !r, %v20: !r, %v21: !r, %v22: !r, %v23: !r, %v24: !r, %v25: !r, %v26: !r, %v27: !r, %v28: !r, %v29: !r, %v30: !r, %v31: !r) {
  %v33 = tsr_graph.add %v0, %v1 step 0 values [33] until [1] : (!r, !r) -> !r
  %v34 = tsr_graph.add %v33, %v2 step 1 values [34] until [2] : (!r, !r) -> !r
  %v35 = tsr_graph.add %v34, %v3 step 2 values [35] until [3] : (!r, !r) -> !r
  %v36 = tsr_graph.add %v35, %v4 step 3 values [36] until [4] : (!r, !r) -> !r
  %v37 = tsr_graph.add %v36, %v5 step 4 values [37] until [5] : (!r, !r) -> !r
  %v38 = tsr_graph.add %v37, %v6 step 5 values [38] until [6] : (!r, !r) -> !r
  %v39 = tsr_graph.add %v38, %v7 step 6 values [39] until [7] : (!r, !r) -> !r
  %v40 = tsr_graph.add %v39, %v8 step 7 values [40] until [8] : (!r, !r) -> !r
  %v41 = tsr_graph.add %v40, %v9 step 8 values [41] until [9] : (!r, !r) -> !r
  %v42 = tsr_graph.add %v41, %v10 step 9 values [42] until [10] : (!r, !r) -> !r
  %v43 = tsr_graph.add %v42, %v11 step 10 values [43] until [11] : (!r, !r) -> !r
  %v44 = tsr_graph.add %v43, %v12 step 11 values [44] until [12] : (!r, !r) -> !r
  %v45 = tsr_graph.add %v44, %v13 step 12 values [45] until [13] : (!r, !r) -> !r
  %v46 = tsr_graph.add %v45, %v14 step 13 values [46] until [14] : (!r, !r) -> !r
  %v47 = tsr_graph.add %v46, %v15 step 14 values [47] until [15] : (!r, !r) -> !r
  %v48 = tsr_graph.add %v47, %v16 step 15 values [48] until [16] : (!r, !r) -> !r
  %v49 = tsr_graph.add %v48, %v17 step 16 values [49] until [17] : (!r, !r) -> !r
  %v50 = tsr_graph.add %v49, %v18 step 17 values [50] until [18] : (!r, !r) -> !r
  %v51 = tsr_graph.add %v50, %v19 step 18 values [51] until [19] : (!r, !r) -> !r
  %v52 = tsr_graph.add %v51, %v20 step 19 values [52] until [20] : (!r, !r) -> !r
  %v53 = tsr_graph.add %v52, %v21 step 20 values [53] until [21] : (!r, !r) -> !r
  %v54 = tsr_graph.add %v53, %v22 step 21 values [54] until [22] : (!r, !r) -> !r
  %v55 = tsr_graph.add %v54, %v23 step 22 values [55] until [23] : (!r, !r) -> !r
  %v56 = tsr_graph.add %v55, %v24 step 23 values [56] until [24] : (!r, !r) -> !r
  %v57 = tsr_graph.add %v56, %v25 step 24 values [57] until [25] : (!r, !r) -> !r
  %v58 = tsr_graph.add %v57, %v26 step 25 values [58] until [26] : (!r, !r) -> !r
  %v59 = tsr_graph.add %v58, %v27 step 26 values [59] until [27] : (!r, !r) -> !r
  %v60 = tsr_graph.add %v59, %v28 step 27 values [60] until [28] : (!r, !r) -> !r
  %v61 = tsr_graph.add %v60, %v29 step 28 values [61] until [29] : (!r, !r) -> !r
  %v62 = tsr_graph.add %v61, %v30 step 29 values [62] until [30] : (!r, !r) -> !r
  %v63 = tsr_graph.add %v62, %v31 step 30 values [63] until [end] : (!r, !r) -> !r
}
