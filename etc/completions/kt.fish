# SPDX-License-Identifier: Apache-2.0
# fish completion for kt(1), made by etc/completions/generate.

# Names of the configured backends; the reference is always there.
function __kt_backends
    kt backends --format csv 2>/dev/null | string replace -r ',.*' '' | string match -v backend
end

# "section.key" of every setting, and what follows it.
function __kt_settings
    kt config show --format csv 2>/dev/null | string match -v 'section,*' |
        string replace -r '^([^,]*),([^,]*),.*' "\$1.\$2$argv[1]"
end

# The verb and its arguments before the cursor, without options and their values.
function __kt_words
    set -l words (commandline -opc)
    set -e words[1]
    set -l skip 0
    for word in $words
        if test $skip = 1
            set skip 0
        else if contains -- $word $__kt_takes
            set skip 1
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end

function __kt_verb
    set -l words (__kt_words)
    test (count $words) -ge 1; and test $words[1] = $argv[1]
end

# N VERB [FIRST]...: so many words stand there, the verb, and one of the first arguments.
function __kt_at
    set -l words (__kt_words)
    test (count $words) -eq $argv[1]; or return 1
    test (count $argv) -lt 2; or test $words[1] = $argv[2]; or return 1
    test (count $argv) -lt 3; or contains -- $words[2] $argv[3..-1]
end

set -g __kt_takes --config --set --format --layers -l --backend -b --shape --linear --attention --context --sequences --cache --source-type --tokens -n --n-prompt -p --n-gen -n --n-depth -d --tokenize --trace --record --record-size --threads -j --numa-nodes --level --runs --repeats --min-time --cycle --runtime --io --output -o --linears --file -f --max-tokens --input -i --stats --tolerance --expected -e --recorded-tolerance --prompt -p --system --chat-template --temperature --top-k --top-p --min-p --typical --top-n-sigma --xtc-probability --xtc-threshold --repetition-penalty --presence-penalty --frequency-penalty --penalty-last-n --dry-multiplier --dry-base --dry-length --dry-last-n --seed --stop --experts --save-logits --kl-divergence --placement -p --gpu-experts -g --ratio --total --model -m --update -u --max-moves --cases --dir --like --timeout --host -H --port -p --kv-size --kv --max-running --max-queue --max-connections --max-body --drain --served-model-name --api-key --api-key-file --cors --log-level --request -r --minutes --method --layer

complete -c kt -f
complete -c kt -n '__kt_at 0' -a backends -d 'list the configured backends, their state and their options'
complete -c kt -n '__kt_at 0' -a bench -d 'measure backends against this machine\'s limits'
complete -c kt -n '__kt_at 0' -a config -d 'show the configuration, its files and its errors, or change it'
complete -c kt -n '__kt_at 0' -a convert -d 'pack a checkpoint\'s experts and linears into a store, which loads at once'
complete -c kt -n '__kt_at 0' -a detokenize -d 'turn token ids into text'
complete -c kt -n '__kt_at 0' -a doctor -d 'check this machine and each backend'
complete -c kt -n '__kt_at 0' -a explain -d 'say which backend would run each layer of a model, and why'
complete -c kt -n '__kt_at 0' -a forward -d 'run MoE layers of a model on recorded input and check the output'
complete -c kt -n '__kt_at 0' -a generate -d 'go on with a text, or answer it, by a whole model'
complete -c kt -n '__kt_at 0' -a inspect -d 'show what a checkpoint holds'
complete -c kt -n '__kt_at 0' -a perplexity -d 'measure how well a model foretells a text'
complete -c kt -n '__kt_at 0' -a place -d 'choose which experts lie on a GPU, by what was used'
complete -c kt -n '__kt_at 0' -a plugin -d 'check a plugin against the contract, or write the project of a new one'
complete -c kt -n '__kt_at 0' -a run -d 'serve a model over HTTP, as OpenAI\'s API has it'
complete -c kt -n '__kt_at 0' -a stats -d 'show how often experts were asked for, and how unevenly'
complete -c kt -n '__kt_at 0' -a template -d 'render a chat template, or say what it supports'
complete -c kt -n '__kt_at 0' -a tokenize -d 'turn text into a model\'s token ids'
complete -c kt -n '__kt_at 0' -a tune -d 'find values with which the backends are faster on this machine'
complete -c kt -n '__kt_at 0' -a verify -d 'compare a store with its checksums'
complete -c kt -n '__kt_at 0' -a version -d 'show versions'
complete -c kt -n '__kt_at 0' -a help -d 'show the help of a verb'
complete -c kt -n '__kt_at 1 help' -a 'backends bench config convert detokenize doctor explain forward generate inspect perplexity place plugin run stats template tokenize tune verify version'
complete -c kt -l config -r -F -d 'read this configuration file only, besides the shipped drop-ins'
complete -c kt -l set -r -f -a '(__kt_settings =)' -d 'override a setting'
complete -c kt -l format -r -f -a 'table json csv' -d 'write table, json or csv'
complete -c kt -s v -l verbose -d 'show files, plugins, threads, memory and times'
complete -c kt -s h -l help -d 'show this help and exit'
complete -c kt -s V -l version -d 'show the version and exit'
complete -c kt -n '__kt_verb backends' -l options -d 'list the backends\' options only'
complete -c kt -n '__kt_verb backends' -f -a '(__kt_backends)'
complete -c kt -n '__kt_verb bench' -s l -l layers -r -f -a 'all' -d 'of the MODEL: 3, 0-3, 0,2 or all'
complete -c kt -n '__kt_verb bench' -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'backends, "llamafile,reference", or all'
complete -c kt -n '__kt_verb bench' -l shape -r -f -a 'qwen3-30b-a3b deepseek-v3 mixtral-8x7b kimi-k2' -d 'qwen3-30b-a3b, deepseek-v3, mixtral-8x7b, kimi-k2, or H,I,E,K: hidden size, intermediate size, experts, experts a token'
complete -c kt -n '__kt_verb bench' -l linear -r -f -a '4096x2048 2048x4096 151936x2048 18432x7168 7168x18432' -d 'matrices ROWSxCOLS instead of experts, such as 4096x2048,2048x4096'
complete -c kt -n '__kt_verb bench' -l attention -r -f -a 'qwen3-30b-a3b gpt-oss qwen3-next deepseek-v3 kimi-k2 32/4x128 64/8x64 16/2x256' -d 'attention instead of experts: qwen3-30b-a3b, gpt-oss, qwen3-next, deepseek-v3, kimi-k2, or heads such as 32/4x128'
complete -c kt -n '__kt_verb bench' -l context -r -f -a '0 4096 32768' -d 'of --attention: tokens before those of a call'
complete -c kt -n '__kt_verb bench' -l sequences -r -f -a '1 8 64' -d 'of --attention: sequences of a call, each with --tokens tokens'
complete -c kt -n '__kt_verb bench' -l cache -r -f -a 'bf16 q8_0 f32' -d 'of --attention: forms of the cache, bf16, q8_0, f32'
complete -c kt -n '__kt_verb bench' -l source-type -r -f -a 'f32 f16 bf16 fp8_block fp8_channel mxfp8 fp4_g32 int4_g16 int4_g32 int4_g128 int4_channel gptq_g128 awq_g128 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 nvfp4 q1_0 q2_0' -d 'weight formats such as q4_k,q8_0'
complete -c kt -n '__kt_verb bench' -l tokens -r -f -d 'tokens of a call, such as 1,8,32'
complete -c kt -n '__kt_verb bench' -s p -l n-prompt -r -f -d 'the whole MODEL instead of its experts: it reads prompts of so many tokens'
complete -c kt -n '__kt_verb bench' -s n -l n-gen -r -f -d 'likewise: it writes so many tokens'
complete -c kt -n '__kt_verb bench' -s d -l n-depth -r -f -d 'likewise: so many tokens stand before them'
complete -c kt -n '__kt_verb bench' -l tokenize -r -F -d 'how fast the text of files becomes tokens of MODEL: kt bench --tokenize MODEL FILE...'
complete -c kt -n '__kt_verb bench' -l trace -r -F -d 'routing, router weights and hidden states of this trace, not drawn ones'
complete -c kt -n '__kt_verb bench' -l record -r -F -d 'write the batches that are timed to this trace'
complete -c kt -n '__kt_verb bench' -l record-size -r -f -d 'buffer of --record, in MiB'
complete -c kt -n '__kt_verb bench' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb bench' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb bench' -l level -r -f -a 'amx aocl avx512_bf16 avx512_vbmi avx512_vnni avx512 avx_vnni avx2 arm_bf16 kml i8mm sve dotprod neon scalar' -d 'level that the backends named by --backend must take, such as avx2'
complete -c kt -n '__kt_verb bench' -l levels -d 'a row for every level that this CPU can run of the backends named by --backend'
complete -c kt -n '__kt_verb bench' -l runs -r -f -d 'runs'
complete -c kt -n '__kt_verb bench' -l repeats -r -f -d 'calls of a run'
complete -c kt -n '__kt_verb bench' -l min-time -r -f -d 'length of a run, at least 5 calls, or of a row of --latency'
complete -c kt -n '__kt_verb bench' -l cycle -r -f -d 'weights to cycle over, in MiB'
complete -c kt -n '__kt_verb bench' -l dispatch -d 'measure starting the threads and their idling instead of a layer'
complete -c kt -n '__kt_verb bench' -l latency -d 'measure how long submitted work waits before all threads are at it'
complete -c kt -n '__kt_verb bench' -l limits -d 'measure every way of reading and every multiply instruction instead of a layer'
complete -c kt -n '__kt_verb bench' -l stream -d 'measure what submit and sync cost on a GPU\'s stream, and in a graph'
complete -c kt -n '__kt_verb bench' -l runtime -r -F -d 'GPU runtime of --stream, such as libcudart.so.12'
complete -c kt -n '__kt_verb bench' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb bench' -F
complete -c kt -n '__kt_verb config' -l system -d 'set, unset: the machine\'s kt.ini instead of the user\'s'
complete -c kt -n '__kt_at 1 config' -f -a 'show path check get set unset'
complete -c kt -n '__kt_at 2 config get set unset' -f -a '(__kt_settings)'
complete -c kt -n '__kt_verb convert' -s o -l output -r -F -d 'folder of the store'
complete -c kt -n '__kt_verb convert' -s b -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'AMXINT8, AMXINT4, BF16, MOE_INT8, MOE_INT4, RAWINT4, GPTQ_INT4, AWQ, MXFP4, FP8, FP8_PERCHANNEL, MXFP8 or LLAMAFILE, or the name of a backend'
complete -c kt -n '__kt_verb convert' -s l -l layers -r -f -a 'all' -d 'layers: 3, 0-3, 0,2 or all'
complete -c kt -n '__kt_verb convert' -l linears -r -f -a 'all' -d 'store linears, too: all, or patterns of names such as \'blk.*.attn_*,output\''
complete -c kt -n '__kt_verb convert' -l no-experts -d 'store the linears only'
complete -c kt -n '__kt_verb convert' -l resume -d 'keep the layers and linears that an earlier run has stored'
complete -c kt -n '__kt_verb convert' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb convert' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb convert' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb convert' -F
complete -c kt -n '__kt_verb detokenize' -s f -l file -r -F -d 'read the ids from FILE, - for standard input'
complete -c kt -n '__kt_verb detokenize' -l jsonl -d 'read an array of ids a line, write a JSON string a line'
complete -c kt -n '__kt_verb detokenize' -l no-specials -d 'leave control tokens out'
complete -c kt -n '__kt_verb detokenize' -F
complete -c kt -n '__kt_verb doctor' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb explain' -s l -l layers -r -f -a 'all' -d 'layers: 3, 0-3, 0,2 or all'
complete -c kt -n '__kt_verb explain' -s b -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'wished backend, or a method such as AMXINT4'
complete -c kt -n '__kt_verb explain' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb explain' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb explain' -l max-tokens -r -f -d 'tokens per batch that buffers are planned for'
complete -c kt -n '__kt_verb explain' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb explain' -F
complete -c kt -n '__kt_verb forward' -s l -l layers -r -f -a 'all' -d 'layers: 3, 0-3, 0,2 or all'
complete -c kt -n '__kt_verb forward' -s i -l input -r -F -d 'safetensors file with recorded hidden states and routing'
complete -c kt -n '__kt_verb forward' -s o -l output -r -F -d 'write layers.N.output (F32) to this safetensors file'
complete -c kt -n '__kt_verb forward' -l stats -r -F -d 'write how often each expert was asked for to this file, which kt stats reads'
complete -c kt -n '__kt_verb forward' -l record -r -F -d 'write the batches that the layers got to this trace'
complete -c kt -n '__kt_verb forward' -s b -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'wished backend, or a method such as AMXINT4'
complete -c kt -n '__kt_verb forward' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb forward' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb forward' -s c -l check -d 'compare with the recorded output and with the reference backend'
complete -c kt -n '__kt_verb forward' -l tolerance -r -f -d 'most relative L2 error against the reference backend'
complete -c kt -n '__kt_verb forward' -s e -l expected -r -F -d 'recorded output is in this safetensors file'
complete -c kt -n '__kt_verb forward' -l recorded-tolerance -r -f -d 'most relative L2 error against the recorded output'
complete -c kt -n '__kt_verb forward' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb forward' -F
complete -c kt -n '__kt_verb generate' -s p -l prompt -r -f -d 'the text to go on with'
complete -c kt -n '__kt_verb generate' -s f -l file -r -F -d 'read the text from FILE, - for standard input'
complete -c kt -n '__kt_verb generate' -s n -l tokens -r -f -d 'write at most N tokens'
complete -c kt -n '__kt_verb generate' -l chat -d 'the text is a message to be answered: it is wrapped in the model\'s chat template'
complete -c kt -n '__kt_verb generate' -l system -r -f -d 'with --chat: the system\'s message before it'
complete -c kt -n '__kt_verb generate' -l chat-template -r -F -d 'this template instead of the model\'s: a file, or a built-in one as of kt template'
complete -c kt -n '__kt_verb generate' -l ignore-eos -d 'go on behind tokens that end the text'
complete -c kt -n '__kt_verb generate' -l context -r -f -a '0 4096 32768' -d 'room for N tokens'
complete -c kt -n '__kt_verb generate' -l temperature -r -f -a '0 0.6 0.8 1' -d '0: the likeliest token each time'
complete -c kt -n '__kt_verb generate' -l top-k -r -f -a '0 20 40' -d 'draw of the N likeliest tokens'
complete -c kt -n '__kt_verb generate' -l top-p -r -f -a '0.8 0.9 0.95' -d 'draw of the fewest tokens that have this probability'
complete -c kt -n '__kt_verb generate' -l min-p -r -f -a '0.05 0.1' -d 'draw of tokens with P times the likeliest one\'s probability'
complete -c kt -n '__kt_verb generate' -l typical -r -f -d 'draw of the most typical tokens that have this probability'
complete -c kt -n '__kt_verb generate' -l top-n-sigma -r -f -d 'draw of logits within S standard deviations of the highest'
complete -c kt -n '__kt_verb generate' -l xtc-probability -r -f -d 'how often the likeliest tokens are taken out'
complete -c kt -n '__kt_verb generate' -l xtc-threshold -r -f -d 'the probability from which on they are'
complete -c kt -n '__kt_verb generate' -l repetition-penalty -r -f -d 'divide logits of tokens that the text has by R'
complete -c kt -n '__kt_verb generate' -l presence-penalty -r -f -d 'take R off logits of tokens that were written'
complete -c kt -n '__kt_verb generate' -l frequency-penalty -r -f -d 'the same, as often as they were'
complete -c kt -n '__kt_verb generate' -l penalty-last-n -r -f -d 'penalties look back N tokens'
complete -c kt -n '__kt_verb generate' -l dry-multiplier -r -f -d 'DRY: M * base^(n - length) off a token that would go on with a repetition of n tokens'
complete -c kt -n '__kt_verb generate' -l dry-base -r -f -d 'its base'
complete -c kt -n '__kt_verb generate' -l dry-length -r -f -d 'its length'
complete -c kt -n '__kt_verb generate' -l dry-last-n -r -f -d 'DRY looks back N tokens'
complete -c kt -n '__kt_verb generate' -l seed -r -f -d 'the same seed gives the same text again'
complete -c kt -n '__kt_verb generate' -l stop -r -f -d 'the text ends before TEXT'
complete -c kt -n '__kt_verb generate' -l experts -r -F -d 'take the experts from this store or file of the same model'
complete -c kt -n '__kt_verb generate' -s b -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'wished backend, or a method such as AMXINT4'
complete -c kt -n '__kt_verb generate' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb generate' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb generate' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb generate' -F
complete -c kt -n '__kt_verb inspect' -s l -l layers -r -f -a 'all' -d 'layers: 3, 0-3, 0,2 or all'
complete -c kt -n '__kt_verb inspect' -s t -l tensors -d 'list every tensor'
complete -c kt -n '__kt_verb inspect' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb inspect' -F
complete -c kt -n '__kt_verb perplexity' -l context -r -f -a '0 4096 32768' -d 'tokens of a window'
complete -c kt -n '__kt_verb perplexity' -l save-logits -r -F -d 'record the logits that are counted, 4 bytes each'
complete -c kt -n '__kt_verb perplexity' -l kl-divergence -r -F -d 'compare with logits that --save-logits recorded'
complete -c kt -n '__kt_verb perplexity' -l cache -r -f -a 'bf16 q8_0 f32' -d 'form of the cache, bf16, q8_0 or f32'
complete -c kt -n '__kt_verb perplexity' -l experts -r -F -d 'take the experts from this store or file of the same model'
complete -c kt -n '__kt_verb perplexity' -s b -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'wished backend, or a method such as AMXINT4'
complete -c kt -n '__kt_verb perplexity' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb perplexity' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb perplexity' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb perplexity' -F
complete -c kt -n '__kt_verb place' -s p -l placement -r -f -a 'uniform frequency front-loading random' -d 'uniform, frequency, front-loading or random'
complete -c kt -n '__kt_verb place' -s g -l gpu-experts -r -f -d 'budget: N experts times the number of layers'
complete -c kt -n '__kt_verb place' -l ratio -r -f -d 'budget: this part of all experts, 0 to 1, rounded down'
complete -c kt -n '__kt_verb place' -l total -r -f -d 'budget: N experts of all layers together'
complete -c kt -n '__kt_verb place' -l seed -r -f -d 'seed of random'
complete -c kt -n '__kt_verb place' -s m -l model -r -F -d 'the MODEL, if it is one safetensors file'
complete -c kt -n '__kt_verb place' -l shape -r -f -a 'qwen3-30b-a3b deepseek-v3 mixtral-8x7b kimi-k2' -d 'layers with experts, and experts of a layer, instead of a model'
complete -c kt -n '__kt_verb place' -s u -l update -r -F -d 'improve these masks by swapping experts'
complete -c kt -n '__kt_verb place' -l max-moves -r -f -d 'with --update: at most so many swaps, the largest gain first'
complete -c kt -n '__kt_verb place' -s o -l output -r -F -d 'write the masks to this safetensors file: masks U8 [layers][experts]'
complete -c kt -n '__kt_verb place' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb place' -F
complete -c kt -n '__kt_verb plugin' -l cases -r -f -d 'check: random cases of each format and level'
complete -c kt -n '__kt_verb plugin' -l dir -r -f -a '(__fish_complete_directories)' -d 'new: folder to make'
complete -c kt -n '__kt_verb plugin' -l in-tree -d 'new: a backend of kt-kernel\'s own source tree'
complete -c kt -n '__kt_verb plugin' -l like -r -f -a '(__kt_backends)' -d 'new --in-tree: the backend of the tree to copy'
complete -c kt -n '__kt_verb plugin' -l quick -d 'check: leave the measurement of its speed out'
complete -c kt -n '__kt_verb plugin' -l seed -r -f -d 'check: other random cases than the usual ones'
complete -c kt -n '__kt_verb plugin' -l timeout -r -f -d 'check: time that one check may take'
complete -c kt -n '__kt_verb plugin' -l format -r -f -a 'tap'
complete -c kt -n '__kt_at 1 plugin' -f -a 'check new'
complete -c kt -n '__kt_at 2 plugin check' -k -a '(__fish_complete_suffix .so)'
complete -c kt -n '__kt_verb run' -s H -l host -r -f -a '127.0.0.1 0.0.0.0 ::1' -d 'the address to listen at'
complete -c kt -n '__kt_verb run' -s p -l port -r -f -a '30000 8000 0' -d 'the port'
complete -c kt -n '__kt_verb run' -l context -r -f -a '0 4096 32768' -d 'tokens of a prompt and its answer'
complete -c kt -n '__kt_verb run' -l kv-size -r -f -a '1G 4G 16G' -d 'memory for keys and values of all requests and kept prefixes, 8G'
complete -c kt -n '__kt_verb run' -l kv -r -f -a 'bf16 q8_0 f32' -d 'the type of keys and values: bf16, q8_0 or f32'
complete -c kt -n '__kt_verb run' -l max-running -r -f -d 'requests that are computed at once'
complete -c kt -n '__kt_verb run' -l max-queue -r -f -d 'requests that may wait before others get a 429'
complete -c kt -n '__kt_verb run' -l max-connections -r -f -d 'connections at once'
complete -c kt -n '__kt_verb run' -l max-body -r -f -d 'bytes of a request'
complete -c kt -n '__kt_verb run' -l timeout -r -f -d 'seconds that a client may be silent'
complete -c kt -n '__kt_verb run' -l drain -r -f -d 'seconds that answers have to end after SIGTERM, before they are cut'
complete -c kt -n '__kt_verb run' -l served-model-name -r -f -d 'what the model is called by clients'
complete -c kt -n '__kt_verb run' -l chat-template -r -F -d 'this template instead of the model\'s: a file, or a built-in one as of kt template'
complete -c kt -n '__kt_verb run' -l system -r -f -d 'the system\'s message of chats that have none'
complete -c kt -n '__kt_verb run' -l api-key -r -f -d 'answer only who sends this key'
complete -c kt -n '__kt_verb run' -l api-key-file -r -F -d 'keys, one a line, of a file that only its owner may read'
complete -c kt -n '__kt_verb run' -l cors -r -f -d 'let web pages of this origin ask, https://example.org'
complete -c kt -n '__kt_verb run' -l temperature -r -f -a '0 0.6 0.8 1' -d 'where a request says nothing'
complete -c kt -n '__kt_verb run' -l top-p -r -f -a '0.8 0.9 0.95' -d 'likewise, 0 .. 1'
complete -c kt -n '__kt_verb run' -l top-k -r -f -a '0 20 40' -d 'likewise'
complete -c kt -n '__kt_verb run' -l min-p -r -f -a '0.05 0.1' -d 'likewise, 0 .. 1'
complete -c kt -n '__kt_verb run' -l repetition-penalty -r -f -d 'likewise'
complete -c kt -n '__kt_verb run' -l presence-penalty -r -f -d 'likewise, 0 .. 2'
complete -c kt -n '__kt_verb run' -l frequency-penalty -r -f -d 'likewise, 0 .. 2'
complete -c kt -n '__kt_verb run' -l log-level -r -f -a 'error access debug' -d 'error, access: one line for each request, debug: also what the HTTP library says'
complete -c kt -n '__kt_verb run' -l dry-run -d 'say what would be done, and end'
complete -c kt -n '__kt_verb run' -l experts -r -F -d 'take the experts from this store or file of the same model'
complete -c kt -n '__kt_verb run' -s b -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'wished backend, or a method such as AMXINT4'
complete -c kt -n '__kt_verb run' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb run' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb run' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb run' -F
complete -c kt -n '__kt_verb stats' -l experts -d 'a row for each expert'
complete -c kt -n '__kt_verb stats' -s o -l output -r -F -d 'write the sum to this file of statistics'
complete -c kt -n '__kt_verb stats' -F
complete -c kt -n '__kt_verb template' -s r -l request -r -F -d 'render the JSON object in FILE, - for standard input: messages, tools, add_generation_prompt and what else the template reads'
complete -c kt -n '__kt_verb template' -l chat-template -r -F -d 'this template instead of the model\'s: a file, or chatml, llama3, mistral or deepseek, which are built in'
complete -c kt -n '__kt_verb template' -F
complete -c kt -n '__kt_verb tokenize' -s f -l file -r -F -d 'read the text from FILE, - for standard input'
complete -c kt -n '__kt_verb tokenize' -l pieces -d 'show what each token is'
complete -c kt -n '__kt_verb tokenize' -l jsonl -d 'read a JSON string a line, write an array of ids a line'
complete -c kt -n '__kt_verb tokenize' -l no-specials -d 'control tokens in the text, such as <|im_end|>, are text like any other'
complete -c kt -n '__kt_verb tokenize' -l bos -d 'begin with BOS where the model\'s text does'
complete -c kt -n '__kt_verb tokenize' -F
complete -c kt -n '__kt_verb tune' -s l -l layers -r -f -a 'all' -d 'of the MODEL: 3, 0-3, 0,2 or all'
complete -c kt -n '__kt_verb tune' -l backend -r -f -a 'auto AMXINT8 AMXINT4 BF16 MOE_INT8 MOE_INT4 RAWINT4 GPTQ_INT4 AWQ MXFP4 FP8 FP8_PERCHANNEL MXFP8 LLAMAFILE (__kt_backends)' -d 'backends, "llamafile,bf16", or all'
complete -c kt -n '__kt_verb tune' -l level -r -f -a 'amx aocl avx512_bf16 avx512_vbmi avx512_vnni avx512 avx_vnni avx2 arm_bf16 kml i8mm sve dotprod neon scalar' -d 'level that the backends named by --backend must take, such as avx2'
complete -c kt -n '__kt_verb tune' -l shape -r -f -a 'qwen3-30b-a3b deepseek-v3 mixtral-8x7b kimi-k2' -d 'qwen3-30b-a3b, deepseek-v3, mixtral-8x7b, kimi-k2, or H,I,E,K: hidden size, intermediate size, experts, experts a token'
complete -c kt -n '__kt_verb tune' -l linear -r -f -a '4096x2048 2048x4096 151936x2048 18432x7168 7168x18432' -d 'matrices ROWSxCOLS instead of experts, such as 4096x2048,2048x4096'
complete -c kt -n '__kt_verb tune' -l source-type -r -f -a 'f32 f16 bf16 fp8_block fp8_channel mxfp8 fp4_g32 int4_g16 int4_g32 int4_g128 int4_channel gptq_g128 awq_g128 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 nvfp4 q1_0 q2_0' -d 'weight formats such as q4_k,q8_0'
complete -c kt -n '__kt_verb tune' -l tokens -r -f -d 'tokens of a call that count, all alike'
complete -c kt -n '__kt_verb tune' -l minutes -r -f -d 'time for each backend and format at most, packing not counted'
complete -c kt -n '__kt_verb tune' -s j -l threads -r -f -d 'threads of all nodes'
complete -c kt -n '__kt_verb tune' -l numa-nodes -r -f -a 'all' -d 'NUMA nodes to use'
complete -c kt -n '__kt_verb tune' -l cycle -r -f -d 'weights to cycle over, in MiB'
complete -c kt -n '__kt_verb tune' -l levels -d 'tune the backends named by --backend at every level that this CPU can run, and keep the level that is fastest'
complete -c kt -n '__kt_verb tune' -l show -d 'list what can be tuned and what is, and measure nothing'
complete -c kt -n '__kt_verb tune' -l reset -d 'remove the file with the values that were found'
complete -c kt -n '__kt_verb tune' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb tune' -F
complete -c kt -n '__kt_verb verify' -s l -l layers -r -f -a 'all' -d 'layers: 3, 0-3, 0,2 or all'
complete -c kt -n '__kt_verb verify' -l io -r -f -a 'mmap read' -d 'mmap the checkpoint, or read it into memory'
complete -c kt -n '__kt_verb verify' -F
